#!/usr/bin/env python3
"""Proves that CMake finds oneDNN in a named folder, also after another one, with the library of the
same installation, tells its version, and refuses builds by SYCL.

usage: find_dnnl_test.py SOURCE_FOLDER CMAKE
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

SYCL = ("oneDNN 3.13.2 in {root}/include computes by SYCL; use a build with OpenMP, such as PyPI's "
        "onednn-devel-cpu-gomp")
# (runtime of the CPU in the header, Dnnl_FOUND, Dnnl_PROBLEM)
CASES = [("OMP", "TRUE", ""), ("SEQ", "TRUE", ""),
         ("SYCL", "FALSE", SYCL), ("DPCPP", "FALSE", SYCL)]
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


def make(root, runtime, libraries="lib"):
    """An installation of oneDNN."""
    headers = root / "include/oneapi/dnnl"
    headers.mkdir(parents=True)
    (headers / "dnnl.hpp").write_text("")
    (headers / "dnnl_version.h").write_text("#define DNNL_VERSION_MAJOR 3\n"
                                            "#define DNNL_VERSION_MINOR 13\n"
                                            "#define DNNL_VERSION_PATCH 2\n")
    (headers / "dnnl_config.h").write_text("#define DNNL_RUNTIME_SYCL 512u\n"
                                           f"#define DNNL_CPU_RUNTIME DNNL_RUNTIME_{runtime}\n")
    (root / libraries).mkdir()
    (root / libraries / "libdnnl.so").write_text("")


class Project:
    """A project that looks for oneDNN, in a folder of its own."""

    def __init__(self, folder, source, cmake):
        self.folder, self.cmake = folder / "project", cmake
        self.folder.mkdir()
        (self.folder / "CMakeLists.txt").write_text(PROJECT.format(modules=source / "tools/cmake"))

    def configure(self, **options):
        """The lines that begin with found= and library=."""
        done = subprocess.run([self.cmake, "-G", "Ninja", "-S", self.folder,
                               "-B", self.folder / "build",
                               *(f"-D{name}={value}" for name, value in options.items())],
                              capture_output=True, text=True, timeout=60)
        lines = (done.stdout + done.stderr).splitlines()
        return [line for line in lines if line.startswith(("found=", "library="))] or lines


def expect(what, said, *wanted):
    assert said == list(wanted), f"{what}: {said}, not {list(wanted)}"
    print(f"ok: {what}")


def good(root, libraries="lib"):
    return "found=TRUE version=3.13.2 problem=", f"library={root}/{libraries}/libdnnl.so"


def main(source, cmake):
    for runtime, found, problem in CASES:
        for option in ("Dnnl_ROOT", "CMAKE_PREFIX_PATH"):
            with tempfile.TemporaryDirectory(prefix="rondo-find.") as folder:
                root = pathlib.Path(folder) / "there"
                make(root, runtime)
                said = Project(pathlib.Path(folder), source, cmake).configure(**{option: root})
                wanted = f"found={found} version=3.13.2 problem={problem.format(root=root)}"
                library = [f"library={root}/lib/libdnnl.so"] if found == "TRUE" else []
                expect(f"{runtime} by {option}", said, wanted, *library)
    with tempfile.TemporaryDirectory(prefix="rondo-find.") as name:
        folder = pathlib.Path(name)
        project = Project(folder, source, cmake)
        make(folder / "sycl", "SYCL")
        make(folder / "first", "OMP", "lib64")
        make(folder / "second", "OMP")
        project.configure(Dnnl_ROOT=folder / "sycl")
        expect("another folder after a build by SYCL; its library, not another installation's",
               project.configure(Dnnl_ROOT=folder / "first", CMAKE_PREFIX_PATH=folder / "second"),
               *good(folder / "first", "lib64"))
        shutil.rmtree(folder / "first")
        expect("another folder after the first was removed",
               project.configure(Dnnl_ROOT=folder / "second"), *good(folder / "second"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2])
