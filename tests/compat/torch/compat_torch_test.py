"""Tests torch.distributed over Rondo, through torch's public functions.

usage: compat_torch_test.py [WORD...]   runs the tests whose names contain one of the words, or all
"""

import importlib
import sys
import time
import traceback

MODULES = ["collectives", "semantics", "callbacks", "faults", "training", "cplusplus", "elastic",
           "ends", "handles", "layouts", "messages", "package", "threads"]


def main():
    failed = count = 0
    for module in map(importlib.import_module, MODULES):
        for name, test in vars(module).items():
            title = f"{module.__name__}.{name}"
            words = sys.argv[1:]
            if not name.startswith("test_") or words and not any(w in title for w in words):
                continue
            count += 1
            began = time.monotonic()
            try:
                test()
                word = "ok"
            except Exception:
                traceback.print_exc()
                failed += 1
                word = "FAILED"
            print(f"{word}: {title} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{count} tests, {failed} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
