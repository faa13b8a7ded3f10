"""Tests rondo/torch.h with C++ programs. One gets the results of Python's DDP over Gloo."""

import os
import pathlib
import subprocess

import torch
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from harness import ranks
from training import STEPS, Cnn

HERE = pathlib.Path(__file__).resolve().parent
BUILD = os.environ.get("BUILD_OF_RONDO")  # a build folder that contains the command rondo
SANITIZE = os.environ.get("SANITIZE")  # the sanitizers that its librondo was built with
FLAGS = [f"-fsanitize={SANITIZE}", "-fno-sanitize=vptr"] if SANITIZE else []
# Python gets a sanitizer's run time by LD_PRELOAD, which compilers do not work with. The program is
# linked to its own. Leaks are not checked, because libtorch never frees much of its memory.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def numbers(shape, start):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * 0.7 + start).sin().reshape(shape).float()


def python_ddp(rank, size):
    model = Cnn()
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(numbers(weights.shape, rank) * 0.1)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        shard = rank + size * (step % 2)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(numbers((8, 1, 16, 16), shard)),
                               (torch.arange(8) + shard) % 10)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def build(folder):
    """Builds the programs: with CMake, as a user would, or directly with the compiler if torch's
    CMake package cannot be used because it needs a CUDA toolkit of its version. Returns their
    folder."""
    folder.mkdir(parents=True, exist_ok=True)
    package = pathlib.Path(torch.__file__).parent
    lib = pathlib.Path(BUILD) / "lib"
    prefix = folder / "rondo"
    steps = [["cmake", "--install", BUILD, "--prefix", prefix],
             ["cmake", "-S", HERE / "libtorch", "-B", folder / "cmake",
              "-DCMAKE_BUILD_TYPE=Release",
              f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}",
              f"-DCMAKE_PREFIX_PATH={package / 'share/cmake'};{prefix}"]]
    if all(subprocess.run(step, capture_output=True, env=ENVIRONMENT).returncode == 0
           for step in steps):
        subprocess.run(["cmake", "--build", folder / "cmake"], check=True, env=ENVIRONMENT)
        return folder / "cmake"
    include = package / "include"
    for program in ("data_parallel", "irregular"):
        subprocess.run(
            [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", *FLAGS,
             HERE / f"libtorch/{program}.cc",
             "-o", folder / program, f"-I{HERE.parents[2] / 'include'}", f"-I{include}",
             f"-I{include / 'torch/csrc/api/include'}", f"-L{lib}", "-lrondo",
             f"-L{package / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10",
             f"-Wl,-rpath,{lib}:{package / 'lib'}", "-pthread"], check=True, env=ENVIRONMENT)
    return folder


def output(program, size):
    run = subprocess.run([pathlib.Path(BUILD) / "bin/rondo", "run", "-p", str(size), "--", program],
                         capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_trains_as_python():
    if not BUILD:
        print("  skipped: BUILD_OF_RONDO names no build folder")
        return
    programs = build(pathlib.Path(BUILD) / "tests/compat/torch/libtorch")
    for size in (1, 2, 3):
        output(programs / "irregular", size)
        said = sorted((int(rank), int(step), float(loss)) for rank, step, loss in
                      (line.split()[-3:]
                       for line in output(programs / "data_parallel", size).splitlines()))
        losses = torch.tensor([loss for _, _, loss in said])
        expected = torch.tensor(sum(ranks(size, python_ddp, backend="gloo"), []))
        torch.testing.assert_close(losses, expected, rtol=1e-5, atol=0)
        assert losses[STEPS - 1] < losses[0] - 0.01, "nothing was learned"
