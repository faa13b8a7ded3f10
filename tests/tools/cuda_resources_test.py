#!/usr/bin/env python3
"""Proves that tools/cuda_resources passes what ptxas says of a clean kernel, and fails for a spill,
for local memory without one, for local memory of a function that is called, for a missing and for
an old report, and where no kernel is found at all.

usage: cuda_resources_test.py SOURCE_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ENTRY = ("ptxas info    : Compiling entry function '{0}' for 'sm_90'\n"
         "ptxas info    : Function properties for {0}\n"
         "    {1} bytes stack frame, {2} bytes spill stores, {2} bytes spill loads\n"
         "ptxas info    : Used {3} registers, used 0 barriers\n")
CALLED = ("ptxas info    : Function properties for helper\n"
          "    {0} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n")
CLEAN = "ptxas info    : 0 bytes gmem\n" + ENTRY.format("clean", 0, 0, 40)


def run(tool, report, age=0):
    with tempfile.TemporaryDirectory() as folder:
        compiled = pathlib.Path(folder) / "kernel.cu.o"
        compiled.touch()
        host = pathlib.Path(folder) / "host.cc.o"
        host.touch()
        if report is not None:
            path = pathlib.Path(str(compiled) + ".ptxas")
            path.write_text(report)
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
        return subprocess.run([tool, str(compiled), str(host)], capture_output=True, text=True)


def main(source):
    tool = str(pathlib.Path(source) / "tools/cuda_resources")
    clean = run(tool, CLEAN + CALLED.format(0))
    assert clean.returncode == 0 and "40  clean" in clean.stdout, clean.stdout
    named = run(tool, ENTRY.format("_Z1kILN5rondo8DataTypeE9EEvv", 0, 0, 10))
    assert "k<bfloat16>" in named.stdout, named.stdout
    for what, report, age, words in [
            ("a spill", CLEAN + ENTRY.format("bad", 8, 4, 64), 0, "bad for sm_90: 8 bytes"),
            ("local memory", CLEAN + ENTRY.format("bad", 160, 0, 20), 0, "160 bytes of local"),
            ("a called function", CLEAN + CALLED.format(16), 0, "helper for sm_90: 16 bytes"),
            ("no report", None, 0, "missing"),
            ("an old report", CLEAN, 60, "older than its object"),
            ("an empty report", "ptxas info    : 0 bytes gmem\n", 0, "no kernel found")]:
        result = run(tool, report, age)
        assert result.returncode == 1 and words in result.stdout, (what, result.stdout)
        print(f"ok: {what} is caught")


if __name__ == "__main__":
    main(*sys.argv[1:])
