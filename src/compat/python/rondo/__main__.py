"""The command `rondo` of the wheel, and where the wheel's parts are.

usage: python -m rondo --cmake-dir | --include-dir | --library-dir
       python -m rondo COMMAND ...      the command rondo: run, bench, train, plan, ..., help
"""

import os
import pathlib
import sys

PACKAGE = pathlib.Path(__file__).parent
FOLDERS = {"--cmake-dir": PACKAGE / "lib/cmake/rondo", "--include-dir": PACKAGE / "include",
           "--library-dir": PACKAGE / "lib"}


def command():
    """Becomes the command rondo."""
    program = PACKAGE / "bin/rondo"
    if not program.exists():
        sys.exit("This package of Rondo has no command: it is in Debian's package rondo-tools.")
    os.execv(program, ["rondo", *sys.argv[1:]])


def main():
    if len(sys.argv) == 2 and sys.argv[1] in FOLDERS:
        folder = FOLDERS[sys.argv[1]]
        if not folder.exists():
            sys.exit("This package of Rondo is the Python interface alone: its libraries and "
                     "headers are in Debian's package librondo-dev and those that it needs.")
        print(folder)
    else:
        command()


if __name__ == "__main__":
    main()
