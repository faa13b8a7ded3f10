"""Builds rondo_torch._C against the torch and the librondo that are there.

librondo is looked for in RONDO_ROOT (where it was installed, or a build folder of the source tree),
in the Python package rondo, by pkg-config, and in this source tree's own build folder. At run time
the module loads librondo from the place where it was found. The one of the Python package rondo is
found relative to the module.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
# The sources are in compat/torch in the archive of tools/package, beside this file in the tree.
SOURCES = HERE / "compat/torch" if (HERE / "compat/torch").exists() else HERE
TREE = HERE if SOURCES != HERE else HERE.parents[2]


def library_folder(root):
    """The folder of librondo.so below a prefix or a build folder, or None."""
    found = sorted(root.glob("lib*/librondo.so")) + sorted(root.glob("lib/*/librondo.so"))
    return found[0].parent if found else None


def pkg_config(*arguments):
    try:
        return subprocess.run(["pkg-config", *arguments, "rondo"], check=True, text=True,
                              capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def find_rondo():
    """(folder of the headers, folder of the library, where the module looks for it)"""
    if root := os.environ.get("RONDO_ROOT"):
        root = pathlib.Path(root).resolve()
        installed = root / "include"
        headers = installed if (installed / "rondo/rondo.h").exists() else TREE / "include"
        if library := library_folder(root):
            return headers, library, library
        raise SystemExit(f"RONDO_ROOT={root} has no librondo.so in a folder lib")
    if package := importlib.util.find_spec("rondo"):
        folder = pathlib.Path(package.origin).parent
        if list(folder.glob("lib/librondo.so*")):
            return folder / "include", folder / "lib", "$ORIGIN/../rondo/lib"
    if library := pkg_config("--variable=libdir"):
        return pathlib.Path(pkg_config("--variable=includedir")), pathlib.Path(library), library
    if library := library_folder(TREE / "build"):
        return TREE / "include", library, library
    raise SystemExit("librondo was not found: install Rondo's wheel beside torch, or name the "
                     "prefix where it is installed in RONDO_ROOT, or let pkg-config find rondo.pc; "
                     "with pip use --no-build-isolation")


def cuda_folders():
    """Of the CUDA runtime's headers, beside torch or in a toolkit; none where torch has no CUDA."""
    if not torch.version.cuda:
        return []
    beside = pathlib.Path(torch.__file__).parents[1] / "nvidia/cuda_runtime/include"
    places = [beside, pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    return [str(place) for place in places if (place / "cuda_runtime_api.h").exists()][:1]


headers, library, run_path = find_rondo()
# A wheel has no links, so its library has the name that programs load.
file = max(library.glob("librondo.so*"), key=lambda name: name.name == "librondo.so").name
cuda = cuda_folders()
# torch's C++ classes change with each minor version. Where pip builds against a newer torch than
# the one that is installed (without --no-build-isolation it does), it then installs that one, too.
minor_version = ".".join(torch.__version__.split(".")[:2])
needs = [f"torch=={minor_version}.*"]
if library != run_path:
    needs.append(f"rondo=={importlib.metadata.version('rondo')}")
setup(
    install_requires=needs,
    ext_modules=[
        CppExtension(
            "rondo_torch._C",
            sorted(os.path.relpath(source, HERE) for source in SOURCES.glob("*.cc")),
            include_dirs=[str(SOURCES.parents[1]), str(headers), *cuda],
            library_dirs=[str(library)],
            libraries=[f":{file}", *(["c10_cuda"] if cuda else [])],
            define_macros=[("RONDO_TORCH_CUDA", "1")] if cuda else [],
            runtime_library_dirs=[str(run_path)],
            extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
