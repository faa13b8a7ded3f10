#!/usr/bin/env python3
"""Proves that tools/check_style passes the tree as it is, names what is too long, finds
references to what does not exist, and descriptors that may get the number of a standard stream.

usage: check_style_test.py SOURCE_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

LONG = "x" * 101
WORDS = " ".join(["word"] * 21)
BODY = "\n".join(["  f();"] * 59)
# (file, text, what must be said of it; None: nothing)
CASES = [
    ("src/a.cc", f"// {LONG[:98]}\n", "src/a.cc:1: 101 columns"),
    ("tools/a.py", f"\n{LONG}\n", "tools/a.py:2: 101 columns"),
    ("tools/a", f"#!/bin/sh\n{LONG}\n", "tools/a:2: 101 columns"),
    ("tests/CMakeLists.txt", LONG, "tests/CMakeLists.txt:1: 101 columns"),
    ("src/b.cc", LONG[:100], None),
    ("bench/results/a.py", LONG, None),
    ("src/c.cc", f"namespace n {{\nvoid f() {{\n{BODY}\n}}\n}}\n", "src/c.cc:2: f: 61 lines"),
    ("src/d.cc", f"A::A() : a_{{1}} {{\n{BODY}\n}}\n", "src/d.cc:1: A::A: 61 lines"),
    ("src/e.cc", f"int f() {{ return '{{'; }}\nclass A {{\n{BODY}\n}};\n", None),
    ("src/g.cc", "\nint f() { return ::socket(1, 2, 3); }\n", "src/g.cc:2: ::socket: its"),
    ("src/h.cc", "int f() { return fcntl(1, F_DUPFD, 0); }\n", "src/h.cc:1: F_DUPFD: its descr"),
    ("transports/i.cc", "UniqueFd a(0); int b = ::open(p, 0);\n", "transports/i.cc:1: ::open: its"),
    ("src/j.cc", "std::ofstream file(path);\n", "src/j.cc:1: std::ofstream: its descriptor"),
    ("src/k.cc", "UniqueFd a(UniqueFd::of([] {\n  return ::open(p, 0);\n}));\n", None),
    ("src/l.cc", "int a = aboveStreams(::accept4(b, c, d, e)); // ::socket(1)\n", None),
    ("src/m.cc", "int socket() const; bool b = end->open(1) || x.socket(2);\n", None),
    ("tools/n.cc", "int a = ::socket(1, 2, 3);\n", None),
    ("src/f.cc", "void f() {\n" + BODY[7:] + "\n}\n", None),
    ("src/o.cc", "// One.\n#include <a>\n" + "\n" * 499, "src/o.cc:1: 501 lines, and its head"),
    ("src/o.cc", "// One. Longer than 500\n// lines, as a is.\n#include <a>\n" + "\n" * 499, None),
    ("src/o.cc", "// One.\n#include <a>\n" + "\n" * 498, None),
    ("src/README.md", f"fine\n{WORDS}\n", "src/README.md:2: 104 columns"),
    ("src/README.md", f"- {WORDS}\n", "src/README.md:1: 106 columns"),
    ("src/README.md", f"| {WORDS} |\n\n    {WORDS}\n\n```\n{WORDS}\n```\n", None),
    ("src/README.md", f"[a]({LONG})\n", f"src/README.md:1: {LONG} does not exist"),
    ("src/README.md", "`fine.cc`, `src/fine.cc`, [one](fine.cc), `src/`, `NAME.cc`\n", None),
    ("src/README.md", "`gone.cc`\n", "src/README.md:1: gone.cc does not exist"),
    ("src/README.md", "one\n`src/gone`\n", "src/README.md:2: src/gone does not exist"),
    ("src/README.md", "[one](gone.md#part)\n", "src/README.md:1: gone.md does not exist"),
    ("src/README.md", "`gone()` `fine()` `MPI_Init()`\n", "src/README.md:1: gone() does not exist"),
    ("src/README.md", '| `fine_test.cc`, "a fine case", "a fine ..."; "it" | "any" |\n', None),
    ("src/README.md", '| "any" | `fine_test.cc`: one, "a fine case", "gone" |\n',
     'src/README.md:1: fine_test.cc, "gone" does not exist'),
    ("src/g.cc", "int a;\n// See\n// gone.h.\n", "src/g.cc:3: gone.h does not exist"),
    ("src/g.cc", "// See base/fine.cc.\n", "src/g.cc:1: base/fine.cc does not exist"),
    ("src/g.cc", "/* a\n   gone() */\n", "src/g.cc:2: gone() does not exist"),
    ("src/g.cc", "// fine.cc, fine(), x.cc, x/x.h, *.h\nchar c[] = \"gone.h\";\n", None),
    ("tools/a.py", "a = 1  #" " as gone.cc does\n", "tools/a.py:1: gone.cc does not exist"),
]


def run(tool, *arguments):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    tool = pathlib.Path(sys.argv[1]) / "tools/check_style"
    failures = []
    code, output = run(tool)
    if code != 0:
        failures.append(output)
    for path, text, said in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "CMakeLists.txt").write_text("")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / "src").mkdir(exist_ok=True)
            (root / "src/fine.cc").write_text("int fine();\n")
            (root / "src/fine_test.cc").write_text('TEST_CASE("it: a fine "\n    "case") {}\n')
            code, output = run(tool, "--root", folder)
        if (said is None) != (code == 0) or (said or "") not in output:
            failures.append(f"{path}: expected {said}, got\n{output}")
    print("".join(f"FAILED: {text}\n" for text in failures) + f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
