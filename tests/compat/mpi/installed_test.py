#!/usr/bin/env python3
"""Tests the interposers with all installed MPIs: builds every_collective.c with the compiler
wrapper of each, and runs it without Rondo, with the interposer of its ABI, and with the others,
which must refuse it and name the right one. If the MPI has ULFM, and ulfm.c works without Rondo, it
must work with Rondo too. Installs nothing.

usage: installed_test.py --libraries FOLDER [--ranks N] [FOLDER...]

--libraries: the folder of librondo_mpi*.so. The other folders are installations of MPI, with mpicc
and mpiexec in FOLDER/bin. Default: those of RONDO_MPI_FOLDERS, separated by colons, and /usr, where
Debian has both Open MPI and MPICH.

Prints which of the supported MPIs are missing. Exits with 1 if anything failed, with 77 if there is
no MPI at all.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from compat_mpi_test import (COLLECTIVES, REASONS, run_command, statistics_of,
                             with_immediate)

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
INTERPOSERS = ["librondo_mpi.so", "librondo_mpich.so", "librondo_mpi_abi.so"]
# (pattern of the version text, whether the program uses the standard ABI, name).
WANTED = [(r"Open MPI v4\.1", False, "Open MPI 4.1"), (r"Open MPI v5\.0", False, "Open MPI 5.0"),
          (r"MPICH Version:\s+4\.0", False, "MPICH 4.0"),
          (r"MPICH Version:\s+5\.0", False, "MPICH 5.0"),
          (r"MPICH Version:\s+5\.0", True, "MPICH 5.0, standard ABI"),
          (r"Intel\(R\) MPI", False, "Intel MPI"),
          (r"Intel\(R\) MPI", True, "Intel MPI, standard ABI")]
ULFM_RANKS = 4
# (arguments of ulfm.c without Rondo, with Rondo, FAULT for ulfm_fault.c)
ULFM = [(arguments, arguments, "") for arguments in
        (["revoke"], ["kill", "3", "blocking"], ["kill", "0", "blocking"],
         ["kill", "2", "immediate"])]
ULFM += [(["dup"], ["dup"], "dup"), (["unknown", "failed"], ["unknown", "other"], "unknown"),
         (["revoke"], ["revoke"], "reduce"),
         (["kill", "2", "immediate"], ["finalize", "2"], "")]
# A rank dies in MPI_Init: before or while rank 0 sends Rondo's id, before it joins, after that. At
# agree2+! rank 0, which serves the rendezvous, has died before any other rank connects to it.
ULFM += [(["revoke"], ["init", fault[-1]], fault) for fault in
         ("init:agree1:5", "init:bcast1:1", "init:bcast1:0", "init:agree2+:3", "init:agree2+!:0",
          "init:agree3:2")]

failures = []


def fail(what, output):
    failures.append(what)
    print(f"FAILED: {what}", *output.splitlines()[-30:], sep="\n  ", flush=True)


def first_of(folder, names):
    return next((folder / "bin" / name for name in names if (folder / "bin" / name).exists()), None)


class Build:
    """A program, built for one ABI of one MPI."""

    def __init__(self, folder, launcher, compiler, standard, program, flags=()):
        self.folder, self.launcher, self.compiler = folder, launcher, compiler
        self.standard, self.program, self.flags = standard, program, flags

    def compile(self, source, library=None):
        """Makes it, or the library, from this source."""
        command = [self.compiler, HERE / source, "-o", library or self.program, *self.flags,
                   *(["-shared", "-fPIC", "-ldl"] if library else [])]
        done = subprocess.run(command, env=self.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode == 0, done.stdout

    def environment(self):
        more = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT="1",
                    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                    OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1",
                    PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                    I_MPI_ROOT=str(self.folder), I_MPI_FABRICS="shm")
        more.pop("RONDO_MPI_FOLDERS", None)  # Rondo would warn of it
        if self.folder != pathlib.Path("/usr"):
            before = more.get("LD_LIBRARY_PATH")
            more["LD_LIBRARY_PATH"] = f"{self.folder}/lib" + (f":{before}" if before else "")
        return more

    def run(self, ranks, words, arguments=(), options=()):
        """The exit status and all output; the status is None if it hung. `options` are the
        launcher's."""
        return run_command([self.launcher, *options, "-n", str(ranks), "env", *words, self.program,
                            *arguments], self.environment())


def builds_of(folder, work):
    """One program for each ABI of each MPI in the folder."""
    suffixes = [s for s in [".openmpi", ".mpich"] if (folder / f"bin/mpicc{s}").exists()]
    for suffix in suffixes or [""]:
        compiler = first_of(folder, [f"mpicc{suffix}"])
        launcher = first_of(folder, [f"{name}{suffix}"
                                     for name in ["mpiexec.hydra", "mpiexec", "mpirun"]])
        if not compiler or not launcher:
            continue
        yield Build(folder, launcher, compiler, False, work / "program")
        standard = first_of(folder, [f"mpicc_abi{suffix}"])
        header = folder / "include/mpi_abi.h"
        if standard:
            yield Build(folder, launcher, standard, True, work / "program_abi")
        elif header.exists() and (folder / "lib/libmpi_abi.so").exists():
            # Intel MPI has no wrapper for it.
            (work / "mpi.h").write_text(f'#include "{header}"\n', encoding="utf-8")
            yield Build(folder, launcher, os.environ.get("CC", "cc"), True, work / "program_abi",
                        [f"-I{work}", f"-L{folder}/lib", "-lmpi_abi"])


def right_interposer(build, version):
    if build.standard:
        return "librondo_mpi_abi.so"
    return "librondo_mpi.so" if version.startswith("Open MPI") else "librondo_mpich.so"


def check_taken_over(build, ranks, library):
    status, output = build.run(ranks, [f"LD_PRELOAD={library}", "RONDO_MPI_STATS=1"])
    taken, passed = statistics_of(output)
    missing = [name for name in with_immediate(COLLECTIVES) if not taken.get(name)]
    if status != 0 or "every_collective: ok" not in output:
        fail(f"under {library.name}: {'hung' if status is None else f'ended with {status}'}",
             output)
    elif missing or not set(passed) <= REASONS:
        fail(f"under {library.name}: not taken over: {missing}, passed on: {passed}", output)
    else:
        print(f"  ok: under {library.name}: {sum(taken.values())} calls taken over", flush=True)


def check_refused(build, ranks, library, right):
    status, output = build.run(ranks, [f"LD_PRELOAD={library}"])
    if status in (None, 0) or f"preload {right}" not in output:
        fail(f"under {library.name}: ended with {status}, and not with \"preload {right}\"", output)
    else:
        print(f"  ok: {library.name} refuses it and names {right}", flush=True)


def check_ulfm(build, version, library):
    """Returns whether a part of the program worked without Rondo, so that it was tested."""
    built, output = build.compile("ulfm.c")
    if not built or "does not have it" in build.run(1, [])[1]:
        print("  it has no ULFM", *([] if built else output.splitlines()[-5:]), sep="\n    ")
        return False
    faults = build.program.with_name("ulfm_fault.so")
    built, output = build.compile("ulfm_fault.c", faults)
    if not built:
        fail("ulfm_fault.c cannot be built", output)
    tested = False
    for alone, arguments, fault in ULFM:
        what = " ".join(["ulfm", *arguments, *([f"with FAULT={fault}"] if fault else [])])
        # With 8 ranks MPI_Reduce is a tree: ranks wait for others that have the error already.
        ranks = 8 if fault == "reduce" or fault.startswith("init") else ULFM_RANKS
        tolerant = tolerant_options(version, arguments)
        more = [f"FAULT={fault}"]
        status, output = build.run(ranks, [f"LD_PRELOAD={faults}", *more], alone, tolerant)
        if status is None or "ulfm: ok" not in output:
            print(f"  skipped: {what}: without Rondo it "
                  f"{'hung' if status is None else f'ended with {status}'}",
                  *output.splitlines()[-3:], sep="\n    ", flush=True)
            if not tested:
                break  # the first row has no death: this library has the functions, but not ULFM
            continue
        tested = True
        # ulfm.c ends much earlier than after this timeout, so it shows that no rank waits for it.
        more += [f"LD_PRELOAD={library}:{faults}", "RONDO_MPI_STATS=1", "RONDO_INIT_TIMEOUT=600"]
        status, output = build.run(ranks, more, arguments, tolerant)
        taken, passed = statistics_of(output)
        dies = fault or arguments[0] in ("kill", "finalize")
        if status is None or "ulfm: ok" not in output or "FAILED" in output:
            fail(f"{what}: {'hung' if status is None else f'ended with {status}'}", output)
        elif not taken.get("Allreduce") or not taken.get("Iallreduce") or passed:
            fail(f"{what}: taken over: {taken}, passed on: {passed}", output)
        elif arguments[0] == "finalize" and not re.search("not completed .*rank 2 died", output):
            fail(f"{what}: it does not name the call's dead rank", output)
        elif output.count("of rank") != (ranks - 1 if dies else 0):
            fail(f"{what}: not all living ranks came to MPI_Finalize", output)
        else:
            print(f"  ok: {what}", flush=True)
    if tested:
        check_fatal(build, version, library)
    return tested


def tolerant_options(version, arguments):
    """The launcher's, for a job that goes on after a death."""
    if version.startswith("Open MPI"):
        return ["--with-ft", "ulfm"]
    return [] if arguments[0] == "revoke" else ["-disable-auto-cleanup"]


def check_fatal(build, version, library):
    """A fatal error says on stderr who died."""
    arguments = ["fatal", "2"]
    status, output = build.run(ULFM_RANKS, [f"LD_PRELOAD={library}"], arguments,
                               tolerant_options(version, arguments))
    if status in (None, 0) or not re.search("rondo_mpi: .*rank 2", output):
        fail(f"ulfm fatal: ended with {status}, and does not say who died", output)
    else:
        print("  ok: ulfm fatal", flush=True)


def check(build, options):
    """The version of the library, None if the program cannot be built and run at all; and whether
    its ULFM was tested."""
    print(f"{build.compiler} in {build.folder}{', standard ABI' if build.standard else ''}:",
          flush=True)
    built, output = build.compile("every_collective.c")
    status, output = build.run(options.ranks, []) if built else (None, output)
    version = re.search(r"library: (.*)", output)
    if status != 0 or not version:
        print("  cannot be used, also without Rondo:", *output.splitlines()[-5:], sep="\n    ")
        return None, False
    print(f"  {version[1]}", flush=True)
    right = right_interposer(build, version[1])
    own = None
    for name in INTERPOSERS:
        library = options.libraries.resolve() / name
        if not library.exists():
            print(f"  skipped: {name} is not built")
        elif name == right:
            own = library
            check_taken_over(build, options.ranks, library)
        else:
            check_refused(build, options.ranks, library, right)
    return version[1], bool(own) and check_ulfm(build, version[1], own)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--libraries", required=True, type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    named = os.environ.get("RONDO_MPI_FOLDERS", "").split(":")
    folders = options.folders or [pathlib.Path(f) for f in [*named, "/usr"] if f]

    found = []
    for folder in folders:
        with tempfile.TemporaryDirectory(prefix="compat_mpi.") as work:
            for build in builds_of(folder.absolute(), pathlib.Path(work)):
                found.append((*check(build, options), build.standard))
    for pattern, standard, name in WANTED:
        if not any(version and re.match(pattern, version) and has == standard
                   for version, _, has in found):
            print(f"missing: {name}")
    if not any(survives for _, survives, _ in found):
        print("missing: an MPI whose ULFM can be used, as that of Open MPI 5.0")
    print(f"{len(failures)} failures" if failures else "all ok" if found else "no MPI is there")
    return 1 if failures else 0 if found else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
