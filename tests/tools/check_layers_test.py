#!/usr/bin/env python3
"""Proves that tools/check_layers passes the tree as it is, and catches one planted violation of
every rule, by file, line and rule.

usage: check_layers_test.py SOURCE_FOLDER
"""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

# Headers to point at; made where the tree does not have them.
TARGETS = ["src/base/board.h", "src/plan/plan.h", "src/planner/planted.h", "src/engine/planted.h",
           "src/comm/planted.h", "src/train/planted.h", "src/train/parallel/planted.h",
           "src/train/layers/onednn/planted.h", "src/bootstrap/planted.h",
           "src/bootstrap/session.h", "src/algorithms/planted.h", "transports/inproc/planted.h",
           "transports/shm/planted.h", "transports/transport.h", "kernels/reduce.h",
           "kernels/cpu/planted.h", "kernels/cuda/planted.h", "src/device/planted.h",
           "src/device/cuda/planted.h", "tools/planted.h", "tests/support/test.h"]

# (file to plant in, line to plant, rule that must be named)
VIOLATIONS = [
    ("include/rondo/planted.h", '#include "base/board.h"', "include"),
    ("include/rondo/planted.h", "#include <cuda_runtime.h>", "CUDA"),
    ("src/base/planted.cc", '#include "plan/plan.h"', "src/base"),
    ("src/plan/planted.cc", '#include "engine/planted.h"', "src/plan"),
    ("src/plan/planted.cc", '#include "algorithms/planted.h"', "src/plan"),
    ("src/algorithms/planted.cc", '#include "base/board.h"', "src/algorithms"),
    ("src/algorithms/planted.cc", '#include "transports/transport.h"', "src/algorithms"),
    ("src/planner/planted.cc", '#include "algorithms/planted.h"', "src/planner"),
    ("src/planner/planted.cc", '#include "engine/planted.h"', "src/planner"),
    ("src/engine/planted.cc", '#include "transports/shm/planted.h"', "src/engine"),
    ("src/engine/planted.cc", '#include "bootstrap/planted.h"', "src/engine"),
    ("src/engine/planted.cc", '#include "kernels/cpu/planted.h"', "src/engine"),
    ("src/engine/planted.cc", '#include "planner/planted.h"', "src/engine"),
    ("src/engine/planted.cc", '#include "comm/planted.h"', "src/engine"),
    ("src/engine/planted.cc", 'bool isRing = name == "ring";', "src/engine"),
    ("transports/inproc/planted.cc", '#include "transports/shm/planted.h"', "transports"),
    ("transports/shm/planted.cc", '#include "kernels/reduce.h"', "transports"),
    ("transports/planted.cc", '#include "plan/plan.h"', "transports"),
    ("kernels/cpu/planted.cc", '#include "plan/plan.h"', "kernels"),
    ("kernels/cuda/planted.cu", '#include "engine/planted.h"', "kernels/cuda"),
    ("kernels/cuda/planted.cu", '#include "device/cuda/planted.h"', "kernels/cuda"),
    ("src/device/planted.cc", '#include "kernels/cuda/planted.h"', "src/device"),
    ("src/device/planted.cc", "#include <cuda_runtime.h>", "CUDA"),
    ("src/engine/planted.cc", '#include "kernels/cuda/planted.h"', "src/engine"),
    ("src/engine/planted.cc", '#include "device/cuda/planted.h"', "src/engine"),
    ("src/bootstrap/planted.cc", '#include "plan/plan.h"', "src/bootstrap"),
    ("src/bootstrap/planted.cc", "#include <mpi.h>", "MPI"),
    ("src/comm/planted.cc", '#include "transports/shm/planted.h"', "src/comm"),
    ("src/comm/planted.cc", '#include "train/planted.h"', "src/comm"),
    ("src/gradients/planted.cc", '#include "comm/planted.h"', "src/gradients"),
    ("src/train/planted.cc", '#include "comm/planted.h"', "src/train"),
    ("src/train/loop/planted.cc", '#include "train/parallel/planted.h"', "src/train"),
    ("src/train/parallel/planted.cc", '#include "train/layers/onednn/planted.h"',
     "src/train/parallel"),
    ("src/train/parallel/planted.cc", '#include "comm/planted.h"', "src/train/parallel"),
    ("src/compat/nccl/planted.cc", '#include "base/board.h"', "src/compat"),
    ("tools/rondo/other.cc", '#include "plan/plan.h"', "tools"),
    ("tools/rondo/plan_planted.cc", '#include "engine/planted.h"', "tools"),
    ("src/topology/planted.cc", '#include "plan/plan.h"', "src/topology"),
    ("tools/topo_planted.cc", '#include "engine/planted.h"', "tools"),
    ("bench/planted.cc", '#include "engine/planted.h"', "bench"),
    ("src/comm/planted.cc", '#include "tests/support/test.h"', "src/comm"),
    ("src/base/planted.cc", '#include "../plan/plan.h"', "path"),
    ("src/base/planted.cc", '#include "board.h"', "path"),
    ("src/planted/planted.cc", "int planted;", "folder"),
    ("src/engine/planted.cc", "#include <dnnl.h>", "oneDNN"),
    ("src/engine/planted.cc", "#include <oneapi/dnnl/dnnl.hpp>", "oneDNN"),
    ("src/base/planted.cc", "#include <zlib.h>", "zlib"),
    ("src/comm/planted.cc", "#include <hwy/highway.h>", "Highway"),
    ("src/bootstrap/planted.cc", "#include <openssl/hmac.h>", "OpenSSL"),
    ("src/train/planted.cc", "#include <CLI/CLI.hpp>", "CLI11"),
    ("src/comm/planted.cc", "#include <nlohmann/json.hpp>", "nlohmann_json"),
    ("src/compat/nccl/planted.cc", "#include <nanobind/nanobind.h>", "nanobind"),
    ("src/planner/planted.cc", "#include <hwloc.h>", "hwloc"),
    ("src/topology/planted.cc", "#include <hwloc.h>", "hwloc"),
    ("transports/tcp/planted.cc", "#include <ucp/api/ucp.h>", "UCX"),
]

# (what a rule of the tool becomes, rule that must be named, what is said of it)
IDLE_RULES = [
    ('"src/net": (["base"]', '"src/planted": ([], ""), "src/net": (["base"]', "src/planted",
     "no file is in this folder"),
    ('"src/net": (["base"]', '"src/net": (["base", "train"]', "src/net", "no file uses"),
    ('"src/net": (["base"]', '"src/net": (["base", "kernels/reduce.h"]', "src/net", "no file uses"),
    ('"zlib": (r"zlib\\.h$", [', '"zlib": (r"zlib\\.h$", ["src/net", ', "zlib", "no file uses"),
    ('"plan": (["plan", "planner",', '"plan": (["plan", "planner", "comm",', "tools/plan*",
     "no file uses"),
]

# What must stay allowed, so that the check cannot pass by refusing everything.
ALLOWED = [
    ("include/rondo/planted.h", '#include "rondo/types.h"'),
    ("src/algorithms/planted.cc", '#include "plan/plan.h"'),
    ("src/engine/planted.cc", '#include "transports/transport.h"'),
    ("src/engine/planted.cc", '#include "kernels/reduce.h"'),
    ("src/engine/planted.cc", "const char* text = \"string\"; // as \"ring\" does"),
    ("transports/shm/planted.cc", '#include "transports/transport.h"'),
    ("transports/shm/planted.cc", '#include "transports/shm/planted.h"'),
    ("tools/rondo/plan_planted.cc", '#include "plan/plan.h"'),
    ("kernels/cuda/planted.cu", '#include "device/planted.h"'),
    ("src/device/cuda/planted.cc", '#include "kernels/cuda/planted.h"'),
    ("src/engine/planted.cc", '#include "device/planted.h"'),
    ("transports/nvlink/planted.cc", '#include "device/planted.h"'),
    ("src/bootstrap/mpi/planted.cc", "#include <mpi.h>"),
    ("bench/peers/planted.cc", "#include <mpi.h>"),
    ("tests/shm/planted.cc", '#include "transports/shm/planted.h"'),
    ("src/train/planted.cc", '#include "rondo/types.h"'),
    ("src/train/parallel/planted.cc", '#include "train/planted.h"'),
]

failures = 0


def expect(condition, text, output):
    global failures
    if not condition:
        failures += 1
        print(f"FAILED: {text}\n{output}")


def run(root):
    done = subprocess.run([root / "tools/check_layers", "--root", root], capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def load(source):
    path = str(source / "tools/check_layers")
    loader = importlib.machinery.SourceFileLoader("check_layers", path)
    spec = importlib.util.spec_from_loader("check_layers", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def planted(check, root, path, line):
    """Returns the tool's messages about a new file that has the line as line 2."""
    file = root / path
    before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"// planted\n{line}\n")
    said = [f"{path}:{number}: [{rule}]"
            for number, rule, _ in check.check_file(root, path, check.algorithms_of(root), set())]
    file.unlink() if before is None else file.write_bytes(before)
    return said


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    sys.dont_write_bytecode = True
    check = load(source)
    code, output = run(source)
    expect(code == 0, "the tree as it is passes", output)
    drawn = subprocess.run([source / "tools/check_layers", "--table"], capture_output=True,
                           text=True)
    for part in drawn.stdout.split("\n\n"):
        expect(part.strip() in (source / "src/README.md").read_text(),
               "src/README.md shows what tools/check_layers --table prints", part)

    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for top in ("include", "src", "kernels", "transports", "tools", "bench", "tests"):
            shutil.copytree(source / top, copy / top)
        tool = copy / "tools/check_layers"
        rules = tool.read_text()
        for before, after, rule, text in IDLE_RULES:
            expect(before in rules, f"the tool has {before}", "")
            tool.write_text(rules.replace(before, after))
            code, output = run(copy)
            expect(code == 1 and f"tools/check_layers: [{rule}] {text}" in output,
                   f"{after} breaks [{rule}]", output)
        tool.write_text(rules)

        for target in TARGETS:
            if not (copy / target).exists():
                (copy / target).parent.mkdir(parents=True, exist_ok=True)
                (copy / target).write_text("// planted\n")
        code, output = run(copy)
        expect(code == 0, "the copy passes before anything is planted", output)
        for path, line, rule in VIOLATIONS:
            said = planted(check, copy, path, line)
            expect(f"{path}:{1 if rule == 'folder' else 2}: [{rule}]" in said,
                   f"{path}: {line} breaks [{rule}]", said)
        for path, line in ALLOWED:
            said = planted(check, copy, path, line)
            expect(not said, f"{path}: {line} is allowed", said)

    print(f"{len(VIOLATIONS)} violations, {len(IDLE_RULES)} idle rules, "
          f"{len(ALLOWED)} allowed lines, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
