#!/usr/bin/env python3
"""Runs the MPI programs of this folder under mpirun with an interposer preloaded, and proves that
the collectives were really taken over.

usage: compat_mpi_test.py MPI --mpirun PATH --library PATH --programs FOLDER [--ranks N...]
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

RANKS = [1, 2, 3, 4, 5, 7, 8]
COLLECTIVES = ["Allreduce", "Reduce", "Bcast", "Scatter", "Scatterv", "Gather", "Gatherv",
               "Allgather", "Allgatherv", "Reduce_scatter", "Reduce_scatter_block", "Scan",
               "Exscan", "Alltoall", "Alltoallv", "Barrier"]
# The only reasons for which the grid passes calls on.
REASONS = {"an operator that Rondo does not have",
           "a type that Rondo does not reduce with this operator",
           "an intercommunicator"}
# Checks and their numbers of ranks. MPICH's ranks never yield the processor, so the numbers are
# small if that is possible.
SEMANTICS = {"ordering": [2, 3], "between": [1, 3], "apart": [2, 3], "threads": [1, 3],
             "finalize": [1, 3], "freed": [1, 3], "columns": [1, 2, 5], "bottom": [1, 3],
             "unsigned": [1, 3], "nan": [1, 3], "late": [3], "stopped": [3], "refused": [1, 3],
             "aliased": [1, 3], "nothing": [3], "idup": [1, 3], "errors": [1, 3],
             "handler": [1, 3], "truncate": [2, 3], "freed_error": [3], "descriptors": [3],
             "callback": [1, 4], "contiguous": [1, 3], "large_element": [1],
             "attributes": [1, 3], "get_status": [2]}
ENDS = ["fatal", "killed", "abort"]
# Options of the launchers that allow a rank to end without MPI_Finalize.
LENIENT = {"openmpi": ["--mca", "orte_allowed_exit_without_sync", "1"],
           "mpich": ["-disable-auto-cleanup"]}
# A program that takes longer counts as hung.
DEADLINE_S = 600

STATISTIC = re.compile(r"rondo_mpi: (\w+) +(taken over|passed on) +(\d+) calls +\d+ bytes *(.*)")

failures = []


def fail(what, output=""):
    failures.append(what)
    print(f"FAILED: {what}", *output.splitlines()[-40:], sep="\n  ", flush=True)


def run(options, ranks, program, *arguments, library=True, statistics=False, before="",
        launcher=()):
    """The exit status and all output; the status is None if it hung. `before`: shell commands that
    each rank runs first. `launcher`: options of mpirun."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")
    environment.pop("RONDO_MPI_STATS", None)
    # Set for the ranks only: mpirun itself is not an MPI program.
    words = [f"LD_PRELOAD={options.library}"] if library else []
    if statistics:
        words.append("RONDO_MPI_STATS=1")
    # The ranks' errors go to a file: mpirun mixes them with the output, and drops some
    # when a job dies.
    with tempfile.NamedTemporaryFile(mode="r", prefix="compat_mpi.") as errors:
        command = [options.mpirun, *launcher, "-n", str(ranks),
                   "sh", "-c", before + 'exec "$@" 2>>"$0"',
                   errors.name,
                   "env", *words, options.programs / program, *arguments]
        status, output = run_command(command, environment)
        return status, f"{output}\n{errors.read()}"


def run_command(command, environment):
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            output = process.communicate(timeout=DEADLINE_S)
            return process.returncode, "\n".join(output)
        except subprocess.TimeoutExpired:
            # mpirun passes the signal on, and the programs print what they were doing.
            process.terminate()
        try:
            return None, "\n".join(process.communicate(timeout=10))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, "\n".join(process.communicate())


def expect_success(options, ranks, program, *arguments, library=True, **more):
    what = " ".join([program, *arguments, f"on {ranks} ranks"])
    what += "" if library else " without the interposer"
    what += "".join(f", {name} {value}" for name, value in more.items())
    begin = time.monotonic()
    status, output = run(options, ranks, program, *arguments, library=library, **more)
    if status != 0:
        fail(f"{what} {'hung' if status is None else f'ended with {status}'}", output)
    else:
        last = [line for line in output.splitlines() if "cases on" in line]
        print(f"ok: {what}{': ' + last[0] if last else ''} ({time.monotonic() - begin:.1f} s)",
              flush=True)


def with_immediate(names):
    return names + ["I" + name[0].lower() + name[1:] for name in names]


def part_of_grid(options, ranks):
    """Options for the whole grid, or, above two ranks, for a part of it, each time another one:
    together they are the whole grid once more."""
    larger = [count for count in options.ranks if count > 2]
    return ["--part", f"{larger.index(ranks)}/{len(larger)}"] if ranks in larger else []


def check_grid(options, ranks):
    arguments = ["--taken-over", *part_of_grid(options, ranks)]
    what = " ".join(["grid", *arguments, f"on {ranks} ranks"])
    begin = time.monotonic()
    status, output = run(options, ranks, "grid", *arguments, statistics=True)
    if status != 0:
        fail(f"{what} {'hung' if status is None else f'ended with {status}'}", output)
        return
    taken, passed = statistics_of(output)
    missing = [name for name in with_immediate(COLLECTIVES) if taken.get(name, 0) == 0]
    if missing:
        fail(f"{what}: not taken over: {', '.join(missing)}", output)
    for reason in set(passed) - REASONS:
        fail(f"{what}: passed on: {', '.join(sorted(passed[reason]))}: {reason}")
    if not REASONS - {"an intercommunicator"} <= set(passed):
        fail(f"{what}: passed on only for {sorted(passed)}")
    cases = next(line for line in output.splitlines() if "cases on" in line)
    print(f"ok: {what}: {cases}, {sum(taken.values())} calls taken over "
          f"({time.monotonic() - begin:.1f} s)", flush=True)


def statistics_of(output):
    """{function: calls taken over}, {reason: functions passed on}."""
    taken, passed = {}, {}
    for function, which, calls, reason in STATISTIC.findall(output):
        if which == "taken over":
            taken[function] = int(calls)
        else:
            passed.setdefault(reason.strip(), set()).add(function)
    return taken, passed


def check_immediate(options, ranks):
    """Nonblocking calls are taken over from the first call of a communicator on."""
    what = f"semantics immediate on {ranks} ranks"
    status, output = run(options, ranks, "semantics", "immediate", statistics=True)
    taken, passed = statistics_of(output)
    if status != 0 or not taken.get("Iallreduce") or passed:
        fail(f"{what} ended with {status}, passed on: {passed}", output)
    else:
        print(f"ok: {what}: {sum(taken.values())} calls taken over", flush=True)


def check_unmatched(options, ranks):
    """MPI_Finalize does not wait for ever for a nonblocking call that other ranks never make."""
    what = f"semantics unmatched on {ranks} ranks"
    status, output = run(options, ranks, "semantics", "unmatched",
                         before="export RONDO_INIT_TIMEOUT=6; ")
    said = re.findall(r"rondo_mpi: .*not completed.*AllReduce.*rank 1", output)
    if status != 0 or len(said) != 1:
        fail(f"{what} {'hung' if status is None else f'ended with {status}'}, "
             f"said {len(said)} times which call and rank", output)
    else:
        print(f"ok: {what}", flush=True)


def check_many(options, ranks, transport):
    """Over shared memory open communicators need no descriptors; over TCP, MPI runs the rest."""
    what = f"semantics many on {ranks} ranks over {transport}"
    status, output = run(options, ranks, "semantics", "many", statistics=True,
                         before=f"ulimit -n 1024; export RONDO_TRANSPORT={transport}; ")
    taken, passed = statistics_of(output)
    rest = {"a communicator that Rondo could not open"} if transport == "tcp" else set()
    if status != 0 or not taken or set(passed) != rest:
        fail(f"{what} {'hung' if status is None else f'ended with {status}'}, "
             f"passed on: {passed}", output)
    else:
        print(f"ok: {what}", flush=True)


def check_nodes(options, ranks):
    """In an MPI program too, algorithms are chosen by the nodes of the ranks."""
    for nodes in [2, 1]:
        what = f"grid --large on {ranks} ranks of {nodes} nodes"
        place = f"$((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} * {nodes} / {ranks}))"
        status, output = run(options, ranks, "grid", "--large",
                             before=f"export RONDO_DEBUG=trace RONDO_NODE=node{place}; ")
        # 300007 doubles are more than the 2 MiB from which the rules compose an AllReduce.
        composed = output.count("AllReduce of 300007 double uses hierarchical")
        if status != 0 or composed != (ranks if nodes > 1 else 0):
            fail(f"{what} ended with {status}, composed by {composed} ranks", output)
        else:
            print(f"ok: {what}: composed by {composed}", flush=True)


def check_spawned(options, ranks):
    """Some MPI installations cannot start processes, which is found out without the interposer."""
    status, output = run(options, ranks, "semantics", "spawned", library=False)
    if status != 0:
        reason = next((line for line in output.splitlines() if "spawn" in line), output[-200:])
        print(f"skipped: semantics spawned: this MPI cannot spawn: {reason[:100]}", flush=True)
        return
    expect_success(options, ranks, "semantics", "spawned")


def check_end(options, ranks, check):
    """The job must end by itself, without success."""
    status, output = run(options, ranks, "semantics", check)
    if status is None:
        fail(f"semantics {check} on {ranks} ranks hung", output)
    elif status == 0:
        fail(f"semantics {check} on {ranks} ranks ended with success", output)
    elif check == "fatal" and "AllReduce" not in output:
        fail(f"semantics fatal on {ranks} ranks does not name the call", output)
    elif check == "fatal" and (len(re.findall("rondo_mpi: .*AllReduce", output)) > max(1, ranks - 1)
                               or "ended in an error" in output):
        fail(f"semantics fatal on {ranks} ranks: each rank says why, not one for all", output)
    else:
        print(f"ok: semantics {check} on {ranks} ranks ends with {status}", flush=True)


def check_statistics(options, ranks):
    """Statistics change nothing for the program: neither its errors nor how often handlers are
    called, even if only some ranks count."""
    expect_success(options, ranks, "semantics", "statistics")
    for check in ["statistics", "errors", "handler", "refused", "aliased"]:
        expect_success(options, ranks, "semantics", check, statistics=True)
    for rank in [0, ranks - 1]:
        expect_success(options, ranks, "semantics", "ordering",
                       before=f"[ ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} != {rank} ] || "
                              "export RONDO_MPI_STATS=1; ")


def check_unfinalized(options, ranks, check, transport):
    """Ranks go on after one has ended without MPI_Finalize, if they do so without Rondo."""
    what = f"semantics {check} on {ranks} ranks over {transport}"
    for library in [False, True]:
        status, output = run(options, ranks, "semantics", check, library=library,
                             launcher=LENIENT[options.mpi],
                             before=f"export RONDO_TRANSPORT={transport}; ")
        if status == 0 and output.count("went on") == ranks - 1:
            continue
        if library:
            fail(f"{what} {'hung' if status is None else f'ended with {status}'}", output)
        else:
            print(f"skipped: {what}: this MPI ends the job", flush=True)
        return
    print(f"ok: {what}", flush=True)


def check_needed(options):
    """The interposer is not linked to an MPI library, so it works with any of the same ABI. It has
    the collectives' large-count forms and the functions of MPI 4.1, except for Open MPI, which has
    none."""
    output = subprocess.run(["readelf", "-d", options.library], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output)
    if not needed or any(name.startswith("libmpi") for name in needed):
        fail(f"{options.library.name} needs {needed}")
    else:
        print(f"ok: {options.library.name} needs no MPI library", flush=True)
    output = subprocess.run(["nm", "-D", "--defined-only", options.library], stdout=subprocess.PIPE,
                            text=True, check=True).stdout
    newer = re.findall(r"\bMPI_Request_get_status_\w+", output)
    if len(newer) != (3 if options.mpi == "mpich" else 0):
        fail(f"{options.library.name} has the functions of MPI 4.1 {sorted(newer)}")
    large = set(re.findall(r"\b(\w+)_c$", output, re.MULTILINE))
    wanted = {prefix + name for name in with_immediate(COLLECTIVES[:-1])
              for prefix in ["MPI_", "PMPI_"]}
    if large != (wanted if options.mpi == "mpich" else set()):
        fail(f"{options.library.name} has the large-count forms of {sorted(large)}")
    else:
        print(f"ok: {options.library.name} has {len(large)} large-count forms", flush=True)


def check_other_library(options):
    """With the wrong interposer a program ends with an error that names the right one."""
    right = options.library.name
    for wrong in {"librondo_mpich.so", "librondo_mpi.so", "librondo_mpi_abi.so"} - {right}:
        other = argparse.Namespace(**{**vars(options), "library": options.library.with_name(wrong)})
        if not other.library.exists():
            continue
        status, output = run(other, 2, "grid")
        if status in (None, 0) or f"preload {right}" not in output:
            fail(f"grid with {wrong} ended with {status}", output)
        else:
            print(f"ok: {wrong} refuses it", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpi", choices=["openmpi", "mpich"])
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=RANKS)
    options = parser.parse_args()

    # The comparison itself must succeed if both sides are the MPI library.
    expect_success(options, 2, "grid", library=False)
    check_needed(options)
    check_other_library(options)
    check_statistics(options, 3)
    for check in ["unfinalized", "exit"]:
        for transport in ["shm", "tcp"]:
            check_unfinalized(options, 3, check, transport)
    for ranks in options.ranks:
        check_grid(options, ranks)
    for ranks in options.ranks:
        if ranks <= (3 if options.mpi == "mpich" else 5):
            expect_success(options, ranks, "in_flight")
    for check, at in SEMANTICS.items():
        # The check makes 200 communicators; with MPICH each is slow when there are more ranks than
        # processors.
        for ranks in [2] if check == "descriptors" and options.mpi == "mpich" else at:
            expect_success(options, ranks, "semantics", check)
    for ranks in [1, 4]:
        check_immediate(options, ranks)
    check_unmatched(options, 3)
    check_nodes(options, 4)
    check_spawned(options, 3)
    check_many(options, 2 if options.mpi == "mpich" else 8, "shm")
    check_many(options, 2 if options.mpi == "mpich" else 4, "tcp")
    for check in ENDS:
        check_end(options, 3, check)
    for program in sorted(options.programs.glob("fortran_*")):
        for ranks in [1, 3]:
            expect_success(options, ranks, program.name)
    print(f"{len(failures)} failures" if failures else "all ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
