#!/usr/bin/env python3
"""Proves, with stub programs in place of the GPU's, the compiler's and the tests': tools/gpu_check
reports each failure and goes on, prints the stacks of what hangs and ends it, ends its step when it
is interrupted, writes the figures with their goals, and says in one line what a machine lacks.

usage: gpu_check_test.py SOURCE_FOLDER
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GPU = "#!/bin/sh\necho 'NVIDIA Test, 580.1, 9.0'\n"
# "Builds" stubs: a test that fails, one that hangs with a child, and a benchmark.
CMAKE = """#!/bin/sh
if [ "$1" != --build ]; then
  echo > "$4/CMakeCache.txt"
  echo RONDO_CUDNN_MISSING:INTERNAL= >> "$4/CMakeCache.txt"
  exit
fi
mkdir -p "$2/tests" "$2/bin"
printf '#!/bin/sh\\necho wrong bits; exit 3\\n' > "$2/tests/test_bad_gpu"
printf '#!/bin/sh\\nsleep 600 & wait\\n' > "$2/tests/test_hanging_gpu"
printf '#!/bin/sh\\n' > "$2/tests/test_good_gpu"
printf '#!/bin/sh\\necho warning: skipped: no GPU: old driver' > "$2/tests/test_blind_gpu"
cp "$STUBS/bench" "$2/bin/bench_cuda_kernels"
cp "$STUBS/rondo" "$2/bin/rondo"
chmod +x "$2"/tests/* "$2"/bin/*
"""
BENCH = """#!/bin/sh
cat > "$2" <<'END'
{"context": {"copy_bytes_per_second": 4.0e12}, "benchmarks": [
  {"name": "reduce float32 sum 2 to 1, 256 MiB", "of_copy": 0.95},
  {"name": "reduce bfloat16 sum 2 to 1, 256 MiB", "of_copy": 0.5}]}
END
"""
# 2 ranks of 256 MiB at 4 TB/s are bound by 268 us.
RONDO = """#!/bin/sh
case "$*" in
*'plan allreduce --ranks-per-gpu 2 -p 2 --bytes 268435456 --algorithm direct --memory-gbs 4000.0')
  echo 'bytes algorithm turns steps moved/bound launch_us steps_us moving_us memory_us link_us'\
' total_us'
  echo '268435456 direct 9 3 1.25 4 54 200 335.5 0 339.5'
  exit ;;
'plan '*) exit 1 ;;
esac
case "$*" in
'train --device cuda -p 2 '*' --strategy fsdp --json '*) accuracy=0.5 ;;
'train --device cuda -p 2 '*' --strategy ps --json '*) exit 3 ;;
'train --device cuda '*) accuracy=0.99 ;;
esac
if [ "$1" = train ]; then
  while [ "$1" != --json ]; do shift; done
  echo "{\\"test_accuracy\\": $accuracy}" > "$2"
  exit
fi
case "$*" in *'reduce --device cuda -p 5 '*) echo wrong; exit 1 ;; *-J*) ;; *) exit ;; esac
while [ "$1" != -J ]; do shift; done
echo '{"results": [{"algorithm": "direct", "out_of_place": {"p50": 300.0}}]}' > "$2"
"""
GDB = """#!/bin/sh
echo "Stacks of $*"
"""
# Has a torch with CUDA, with which a check fails.
PYTHON = """#!/bin/sh
case "$*" in
*torch_gpu.py' --library '*/lib/rondo/libnccl.so.2' '*) echo FAILED: DDP; exit 7 ;;
'-c import torch'*) echo True True ;;
esac
"""


def program(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def checkout(source, place):
    """As much of a source tree as the tool looks at, with stubs in front of PATH."""
    for name in ("tools", "bench/cuda", "stubs", "packages/usr/include",
                 *(f"tests/{kind}/gpu" for kind in ("bad", "blind", "good", "hanging"))):
        (place / name).mkdir(parents=True)
    shutil.copy(pathlib.Path(source, "tools/gpu_check"), place / "tools")
    (place / "bench/cuda/kernels.cc").touch()
    (place / "tests/good/gpu/a_test.cc").write_text('TEST_CASE("a", "[sanitize]")')
    stubs = place / "stubs"
    for name, text in (("nvidia-smi", GPU), ("nvcc", "#!/bin/sh\n"), ("cmake", CMAKE),
                       ("ninja", "#!/bin/sh\n"), ("bench", BENCH), ("rondo", RONDO),
                       ("c++", "#!/bin/sh\n"), ("compute-sanitizer", "#!/bin/sh\n"),
                       ("python3", PYTHON), ("gdb", GDB)):
        program(stubs / name, text)
    return stubs


def run(place, stubs, *arguments):
    environment = {**os.environ, "STUBS": str(stubs), "PATH": f"{stubs}:/usr/bin:/bin",
                   "CXX": str(stubs / "c++")}
    return subprocess.run([sys.executable, str(place / "tools/gpu_check"), "--results",
                           str(place / "results"), "--build", str(place / "build"), *arguments],
                          capture_output=True, text=True, env=environment, timeout=120)


def check_run(source):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        stubs = checkout(source, place)
        began = time.monotonic()
        done = run(place, stubs, "--commit", "abc1234", "--test-limit", "2")
        assert time.monotonic() - began < 60, "the hanging test was not ended"
        assert done.returncode == 1, done
        report = json.loads(next((place / "results").glob("*-gpu.json")).read_text())
        results = {row["step"]: row["result"] for row in report["steps"]}
        assert results["test_bad_gpu"] == "exit 3", results
        assert results["test_hanging_gpu"] == "limit of 2 s", results
        assert "Stacks of -p " in done.stdout, done.stdout
        assert results["train mlp, 1 rank"] == results["train mlp, tensor"] == "ok", results
        assert results["train mlp, fsdp"] == "test accuracy 0.5", results
        assert results["train mlp, ps"] == "exit 3", results
        assert results["test_blind_gpu"] == "skipped: no GPU", results
        assert results["test_good_gpu"] == results["bench_cuda_kernels"] == "ok", results
        assert results["algorithms correct"] == "exit 1", results
        assert results["types correct"] == "ok", results
        assert results["racecheck test_good_gpu"] == "ok", results
        assert "racecheck test_bad_gpu" not in results, "it has no case for sanitizers"
        assert "wrong bits" in done.stdout, done.stdout
        assert results["torch"] == "exit 7" and "FAILED: DDP" in done.stdout, results
        print("ok: failures are reported, a hanging step ends, later steps run")

        assert report["commit"] == "abc1234" and report["device"]["driver"] == "580.1", report
        figures = {row["name"]: row for row in report["figures"]}
        assert figures["copy"]["value"] == 4000, figures
        assert figures["reduce float32 sum 2 to 1, 256 MiB"]["reached"] is True, figures
        assert figures["reduce bfloat16 sum 2 to 1, 256 MiB"]["reached"] is False
        assert 89 < figures["allreduce 256 MiB, 2 ranks"]["value"] < 90, figures
        assert figures["allreduce 8 B, 2 ranks"]["reached"] is False, figures
        assert done.stdout.rstrip().splitlines()[-1].split()[0] == "allreduce", done.stdout
        print("ok: figures stand beside their goals, in the table and in JSON")

        terms = figures["allreduce 256 MiB, 2 ranks"]["predicted"]
        assert terms["total_us"] == 339.5 and terms["measured_us"] == 300, terms
        assert figures["allreduce 256 MiB, 4 ranks"]["predicted"] is None, figures
        assert "measured 300.0 us, predicted 339.5: launch 4.0, steps 54.0, " in done.stdout, done
        print("ok: what was predicted stands beside what was measured, term by term")


def check_no_cudnn(source):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        stubs = checkout(source, place)
        text = CMAKE.replace("MISSING:INTERNAL=", "MISSING:INTERNAL=not built")
        assert text != CMAKE
        program(stubs / "cmake", text)
        done = run(place, stubs, "--test-limit", "1")
        report = json.loads(next((place / "results").glob("*-gpu.json")).read_text())
        results = {row["step"]: row["result"] for row in report["steps"]}
        assert results["train"] == "skipped: no cuDNN" and "train mlp, ps" not in results, done
        print("ok: a build without cuDNN skips the trainings")


def interrupt(place, stubs, number, *arguments):
    """Sends the tool a signal when a stub has written a step's process id to the file pid. Returns
    this number after the tool has ended."""
    tool = subprocess.Popen(
        [sys.executable, str(place / "tools/gpu_check"), "--results", str(place / "results"),
         "--build", str(place / "build"), *arguments], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "STUBS": str(stubs),
                                        "PATH": f"{stubs}:/usr/bin:/bin",
                                        "CXX": str(stubs / "c++")})
    try:
        end = time.monotonic() + 60
        while not (stubs / "pid").exists():
            assert time.monotonic() < end and tool.poll() is None, "no step began"
            time.sleep(0.02)
        tool.send_signal(number)
        assert tool.wait(60) != 0
    finally:
        tool.kill()
    return int((stubs / "pid").read_text())


def check_interrupted(source, number):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        stubs = checkout(source, place)
        program(stubs / "cmake", '#!/bin/sh\necho $$ > "$STUBS/new"; mv "$STUBS/new" "$STUBS/pid"\n'
                                 "exec sleep 600\n")
        step = interrupt(place, stubs, number)
        try:
            os.kill(step, signal.SIGKILL)
        except ProcessLookupError:
            print(f"ok: {number.name} ends the tool and its step")
        else:
            raise AssertionError(f"{number.name} left the step running")


def check_interrupted_debugger(source):
    """SIGTERM while a debugger prints the stacks of a step that hangs."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        stubs = checkout(source, place)
        program(stubs / "gdb", '#!/bin/sh\necho $2 > "$STUBS/new"; mv "$STUBS/new" "$STUBS/pid"\n'
                               "exec sleep 600\n")
        step = interrupt(place, stubs, signal.SIGTERM, "--test-limit", "1")
        end = time.monotonic() + 60
        while pathlib.Path(f"/proc/{step}").exists():
            state = pathlib.Path(f"/proc/{step}/stat").read_text().rsplit(")", 1)[1].split()[0]
            if state == "Z":
                break
            assert time.monotonic() < end, "the step that hangs still runs"
            time.sleep(0.02)
        print("ok: SIGTERM during the debugger ends the tool and the step that hangs")


def check_no_torch(source):
    """In a process of its own, since the tool is not a module."""
    with tempfile.TemporaryDirectory() as folder:
        program(pathlib.Path(folder, "python3"), "#!/bin/sh\necho False True\n")
        words = f"""
import importlib.machinery, importlib.util, pathlib
loader = importlib.machinery.SourceFileLoader("gpu_check", {source + "/tools/gpu_check"!r})
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(tool)
steps = tool.Steps(1, pathlib.Path({folder!r}))
tool.torch_on_libnccl(steps, {folder!r})
print(steps.results[0]["result"], steps.failed())
"""
        done = subprocess.run([sys.executable, "-B", "-c", words], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}, timeout=60)
    assert done.stdout.splitlines()[-1:] == ["skipped: no torch with CUDA False"], done
    print("ok: a machine without torch skips its step and does not fail")


def check_missing(source):
    for lacking, words in (("nvidia-smi", "no GPU"), ("nvcc", "no CUDA toolkit"),
                           ("c++", "libhwy-dev")):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            stubs = checkout(source, place)
            program(stubs / lacking, "#!/bin/sh\nexit 1\n")
            if lacking == "nvcc":
                if os.path.exists("/usr/local/cuda/bin/nvcc"):
                    continue
                (stubs / lacking).unlink()
            done = run(place, stubs)
            assert done.returncode == 2 and words in done.stderr, done
            assert len(done.stderr.splitlines()) == 1 and not done.stdout, done
            print(f"ok: without {lacking} it says: {done.stderr.strip()}")


def main(source):
    check_run(source)
    check_interrupted(source, signal.SIGINT)
    check_interrupted(source, signal.SIGTERM)
    check_interrupted_debugger(source)
    check_no_cudnn(source)
    check_no_torch(source)
    check_missing(source)


if __name__ == "__main__":
    main(*sys.argv[1:])
