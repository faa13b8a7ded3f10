#!/usr/bin/env python3
"""Runs all tests of the Python package, which must be in PYTHONPATH.

COMMAND_OF_RONDO is the command rondo. Without NumPy it prints why the tests are skipped."""

import pathlib
import signal
import sys
import unittest

try:
    import numpy  # noqa: F401: the tests need it
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(0)

if __name__ == "__main__":
    # A shell starts background commands with SIGINT ignored. The programs of the tests would
    # inherit that, and those that a test interrupts would not end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    suite = unittest.defaultTestLoader.discover(str(pathlib.Path(__file__).parent),
                                                pattern="check_*.py")
    if suite.countTestCases() == 0:
        sys.exit("no tests were found")
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
