"""Explores the models with spin: the rules hold, and each broken variant of them is found.

With `--large` it explores only the cases that take a minute or more, and up to 10 GiB.
Without spin and a C compiler it is skipped (status 77).
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

MODELS = pathlib.Path(__file__).resolve().parent

# The model, the ranks, the options of the model, and whether the property must hold.
CASES = [
    ("succession.pml", 2, [], True),
    ("succession.pml", 3, [], True),
    ("succession.pml", 4, [], True),
    ("succession.pml", 2, ["GOES_ON"], True),
    ("succession.pml", 3, ["GOES_ON"], True),
    ("succession.pml", 4, ["GOES_ON"], True),
    ("succession.pml", 2, ["STOPS"], True),
    ("succession.pml", 3, ["STOPS"], True),
    ("succession.pml", 4, ["STOPS"], True),
    ("succession.pml", 3, ["MENDS"], True),
    ("succession.pml", 4, ["MENDS"], True),
    ("succession.pml", 4, ["MENDS", "UNTOLD"], False),
    ("succession.pml", 3, ["NO_MAJORITY"], False),
    ("succession.pml", 3, ["NO_QUESTION"], False),
    ("succession.pml", 3, ["HASTE"], False),
    ("succession.pml", 3, ["GOES_ON", "HASTY_HUB"], False),
    ("succession.pml", 3, ["STOPS", "FORGETS"], False),
    ("succession.pml", 3, ["STOPS", "BLIND"], False),
    ("succession.pml", 3, ["STOPS", "HEARTBEATS"], False),
    ("succession.pml", 4, ["STOPS", "HEARTBEATS"], False),
    ("succession.pml", 4, ["STOPS", "HASTY_HUB"], False),
    ("opening.pml", 2, [], True),
    ("opening.pml", 3, [], True),
    ("opening.pml", 4, [], True),
    ("opening.pml", 5, [], True),
    ("opening.pml", 3, ["AT_ONCE"], False),
    ("opening.pml", 3, ["HASTY_HUB"], False),
    ("handover.pml", 3, [], True),
    ("handover.pml", 4, [], True),
    ("handover.pml", 3, ["ONE_OFFER"], False),
    ("handover.pml", 3, ["EACH_ANSWER"], False),
    ("handover.pml", 3, ["KEEPS"], False),
    ("handover.pml", 3, ["KEEPS_AT_END"], False),
    ("handover.pml", 3, ["HASTE"], False),
    ("leaving.pml", 3, ["FAULTS=2"], True),
    ("leaving.pml", 3, ["STALE"], False),
    ("leaving.pml", 3, ["AT_ONCE"], False),
    ("leaving.pml", 3, ["EARLY"], False),
    ("leaving.pml", 3, ["HASTE"], False),
    ("leaving.pml", 3, ["IMPATIENT"], False),
    ("leaving.pml", 3, ["UNSEEN"], False),
    ("leaving.pml", 3, ["ABANDONS"], False),
    ("leaving.pml", 3, ["ONE_BYE"], False),
    ("leaving.pml", 3, ["PATIENT"], False),
    ("leaving.pml", 3, ["KEEPS"], False),
    ("leaving.pml", 3, ["ONE_OFFER"], False),
    ("leaving.pml", 3, ["NO_MAJORITY"], False),
]
SUCCESSION = [["NO_MAJORITY"], ["NO_QUESTION"], ["HASTE"], ["STOPS", "FORGETS"], ["STOPS", "BLIND"],
              ["STOPS", "HEARTBEATS"], ["STOPS", "HASTY_HUB"]]
HANDOVER = ["ONE_OFFER", "EACH_ANSWER", "KEEPS", "KEEPS_AT_END", "HASTE"]
LEAVING = ["STALE", "AT_ONCE", "EARLY", "HASTE", "IMPATIENT", "UNSEEN", "ABANDONS", "ONE_BYE",
           "PATIENT", "KEEPS", "ONE_OFFER", "NO_MAJORITY"]
LARGE = [
    ("succession.pml", 5, [], True),
    *[("succession.pml", 5, options, False) for options in SUCCESSION],
    *[("handover.pml", 5, [name], False) for name in HANDOVER],
    ("leaving.pml", 4, [], True),
    *[("leaving.pml", 4, [name], False) for name in LEAVING],
]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def explore(compiler, model, ranks, options, large):
    """Returns whether the property holds in all runs, and how many states they have."""
    fair = "GOES_ON" in options
    with tempfile.TemporaryDirectory() as folder:
        defines = [f"-D{option}" for option in [f"N={ranks}", *options]]
        run(["spin", *defines, "-a", str(MODELS / model)], folder)
        kind = ["-DNOREDUCE", "-DNFAIR=3"] if fair else ["-DSAFETY"]
        if large:
            kind.append("-DCOLLAPSE")  # the same states in less memory
        run([compiler, "-O1", "-w", f"-DMEMLIM={10000 if large else 4000}", *kind, "-o", "pan",
             "pan.c"], folder)
        output = run(["./pan", "-m1000000", *(["-a", "-f"] if fair else [])], folder)
    if "errors: 0" in output and "Search not completed" in output:
        sys.exit("the exploration is not complete:\n" + output[-2000:])
    states = next(line.split()[0] for line in output.splitlines() if "states, stored" in line)
    return "errors: 0" in output, states


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--large", action="store_true", help="the cases that take long")
    large = arguments.parse_args().large
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not shutil.which("spin") or not compiler:
        print("skipped: spin and a C compiler are needed")
        return 77
    wrong = 0
    for model, ranks, options, expected in LARGE if large else CASES:
        holds, states = explore(compiler, model, ranks, options, large)
        wrong += holds != expected
        print(f"{model}, {ranks} ranks {' '.join(options)}: "
              f"{'holds' if holds else 'fails'}, {states} states"
              f"{'' if holds == expected else '  WRONG'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
