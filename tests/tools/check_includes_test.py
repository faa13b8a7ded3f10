#!/usr/bin/env python3
"""Proves that tools/check_includes passes the tree as it is, and names the missing header.

usage: check_includes_test.py SOURCE_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

# (text of a source file, text of the header next to it, what must be said; None: nothing)
CASES = [
    ("\nstd::vector<int> v;\n", "", "src/a.cc:2: std::vector needs #include <vector>"),
    ("#include <vector>\nstd::vector<int> v;\n", "", None),
    ('#include "a.h"\nstd::vector<int> v;\n', "#include <vector>\n", None),
    ('#include "a.h"\nstd::vector<int> v;\n', "#include <string>\n", "std::vector needs"),
    ("// std::vector\nconst char* s = \"std::vector\";\n", "", None),
    ("", "std::mutex m;\n", "src/a.h:1: std::mutex needs #include <mutex>"),
    ("#include <condition_variable>\nstd::mutex m;\n", "", None),
]


def run(tool, *arguments):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    tool = pathlib.Path(sys.argv[1]) / "tools/check_includes"
    failures = []
    code, output = run(tool)
    if code != 0:
        failures.append(output)
    for source, header, said in CASES:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "src").mkdir()
            (pathlib.Path(folder) / "src/a.cc").write_text(source)
            (pathlib.Path(folder) / "src/a.h").write_text(header)
            code, output = run(tool, "--root", folder)
        if (said is None) != (code == 0) or (said or "") not in output:
            failures.append(f"{source!r}, {header!r}: expected {said}, got\n{output}")
    print("".join(f"FAILED: {text}\n" for text in failures) + f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
