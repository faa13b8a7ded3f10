#!/usr/bin/env python3
"""Proves that CMake finds oneDNN in a named folder, tells its version, and refuses builds by SYCL.

usage: find_dnnl_test.py SOURCE_FOLDER CMAKE
"""

import pathlib
import subprocess
import sys
import tempfile

# (runtime of the CPU in the header, Dnnl_FOUND, a part of Dnnl_PROBLEM)
CASES = [
    ("OMP", True, ""),
    ("SEQ", True, ""),
    ("SYCL", False, "oneDNN 3.13.2 in {root}/include computes by SYCL"),
    ("DPCPP", False, "computes by SYCL"),
]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(find LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH {modules})
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
find_package(Dnnl MODULE)
message(NOTICE "found=${{Dnnl_FOUND}} version=${{Dnnl_VERSION}} problem=${{Dnnl_PROBLEM}}")
if(Dnnl_FOUND)
  get_target_property(library dnnl::dnnl IMPORTED_LOCATION)
  message(NOTICE "library=${{library}}")
endif()
"""


def make(root, runtime):
    headers = root / "include/oneapi/dnnl"
    headers.mkdir(parents=True)
    (headers / "dnnl.hpp").write_text("")
    (headers / "dnnl_version.h").write_text("#define DNNL_VERSION_MAJOR 3\n"
                                            "#define DNNL_VERSION_MINOR 13\n"
                                            "#define DNNL_VERSION_PATCH 2\n")
    (headers / "dnnl_config.h").write_text("#define DNNL_RUNTIME_SYCL 512u\n"
                                           f"#define DNNL_CPU_RUNTIME DNNL_RUNTIME_{runtime}\n")
    (root / "lib").mkdir()
    (root / "lib/libdnnl.so").write_text("")


def main():
    source, cmake = pathlib.Path(sys.argv[1]), sys.argv[2]
    failed = 0
    for runtime, found, problem in CASES:
        for option in ("Dnnl_ROOT", "CMAKE_PREFIX_PATH"):
            with tempfile.TemporaryDirectory(prefix="rondo-find.") as folder:
                root = pathlib.Path(folder) / "there"
                make(root, runtime)
                project = pathlib.Path(folder) / "project"
                project.mkdir()
                (project / "CMakeLists.txt").write_text(
                    PROJECT.format(modules=source / "tools/cmake"))
                done = subprocess.run([cmake, "-S", project, "-B", project / "build",
                                       f"-D{option}={root}"], capture_output=True, text=True)
                said = done.stdout + done.stderr
                wanted = [f"found={'TRUE' if found else 'FALSE'} version=3.13.2",
                          problem.format(root=root)]
                if found:
                    wanted.append(f"library={root}/lib/libdnnl.so")
                missing = [text for text in wanted if text not in said]
                if missing:
                    failed += 1
                    print(f"{runtime} by {option}: {missing} is not in:\n{said}")
    print(f"find_dnnl: {2 * len(CASES)} cases, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
