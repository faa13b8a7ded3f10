#!/usr/bin/env python3
"""Runs this folder's programs with Rondo's libnccl.so.2 in place of NVIDIA's, and compares symbols.

usage: compat_nccl_test.py --library LIBRARY --source FOLDER --programs FOLDER [--other LIBRARY]
                           [--sanitized]

The FOLDER of --programs contains the programs, compiled with our declarations (own) and, if --other
names a toolkit's library, with NVIDIA's (nvidia). --sanitized: preloads no library, since a
sanitizer's run time must be loaded first, and runs fewer ranks.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DEADLINE_S = 240
RANKS = [1, 2, 3, 4, 5, 7, 8]


def exported(library):
    """Returns {name: kind} of a library's exported symbols; a versioned name keeps its version."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return {line.split()[-1]: line.split()[-2] for line in lines if line.split()[-2] in "TW"}


def named(source):
    """Returns the names that the sources say are exported."""
    folder = source / "src/compat/nccl"
    declared = "".join((folder / name).read_text() for name in ("functions.def", "newer.def"))
    found = re.findall(r"^FUNCTION\([^,]+, (\w+)", declared, re.M)
    found += re.findall(r"^STUB\((\w+)\)", (folder / "stubs.def").read_text(), re.M)
    return {prefix + name for name in found for prefix in ("nccl", "pnccl")}


def check_symbols(library, other, source):
    ours = exported(library)
    strangers = [name for name in ours if not re.fullmatch(r"p?nccl\w+", name)]
    assert not strangers, f"exports {strangers}"
    missing = named(source) - ours.keys()
    assert not missing, f"lacks {sorted(missing)}"
    for name, kind in ours.items():
        if name.startswith("nccl"):
            assert kind == "W", f"{name} cannot be replaced by a profiler: it is not weak"
            assert ours.get("p" + name) == "T", f"{name} has no twin"
    if other:
        theirs = exported(other)
        assert len(theirs) > 80, f"{other} shows {len(theirs)} functions only"
        missing = theirs.keys() - ours.keys()
        assert not missing, f"NVIDIA's library has {sorted(missing)}"
    dynamic = subprocess.run(["readelf", "-d", library], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    assert "soname: [libnccl.so.2]" in dynamic, dynamic
    print(f"ok: {len(ours)} symbols" + (f", all of {other}" if other else ""))


class Programs:
    def __init__(self, folder, library):
        self.folder, self.library = folder, library

    def run(self, header, program, *words, **more):
        return self.start([self.folder / header / program, *map(str, words)],
                          " ".join([header, program, *map(str, words)]), **more)

    def run_client(self, script, ranks):
        self.start([sys.executable, script, str(ranks)], f"{script.name} {ranks}")

    def start(self, command, what, preload=False, expected="ok", driver=False, **variables):
        environment = {**os.environ, **variables}
        if preload:
            environment["LD_PRELOAD"] = str(self.library)
            what += " (preloaded)"
        else:
            environment["LD_LIBRARY_PATH"] = str(self.library.parent)
        if driver:
            environment["LD_LIBRARY_PATH"] += f":{self.folder / 'driver'}"
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE_S, check=False)
        if expected not in done.stdout or (done.returncode == 0) != (expected == "ok"):
            sys.exit(f"FAILED: {what}: ended with {done.returncode}\n{done.stdout}")
        print(f"ok: {what}")
        return done.stdout


def check_settings(programs, header):
    """NCCL's environment variables set Rondo's options."""
    # A value that NCCL accepts is no error. If it has no effect, each process says so once.
    taken = {"NCCL_ALGO": ["allreduce:tree,ring;broadcast:ring", "Ring,CollnetDirect,NVLS",
                           "^PAT,NVLSTree", "NVLSTree"],
             "NCCL_PROTO": ["LL128", "^Simple;allreduce:LL"], "NCCL_DEBUG": ["LOUD", "1", "ABORT"],
             "NCCL_DEBUG_FILE": ["/nonexistent/log"], "NCCL_SOCKET_FAMILY": ["AF_IPX"],
             "NCCL_BUFFSIZE": ["lots", "-1", "4G", "0x100000"], "NCCL_SHM_DISABLE": ["perhaps"]}
    silent = ["LL128", "^Simple;allreduce:LL", "ABORT", "0x100000"]
    for name, values in taken.items():
        for value in values:
            said = programs.run(header, "behaviours", "processes", 2, "groups", **{name: value})
            said = [line for line in said.splitlines()
                    if f"{name}={value} " in line and "ignored" in line]
            assert len(said) == (0 if value in silent else 2), f"{name}={value}: {said}"
    for how in ("processes", "threads"):
        programs.run(header, "grid", how, 3, 11, NCCL_ALGO="allreduce:tree,ring;broadcast:ring")
    programs.run(header, "behaviours", "threads", 1, "questions", expected="rnig", NCCL_ALGO="rnig")
    programs.run(header, "behaviours", "processes", 2, "questions", NCCL_ALGO="Ring",
                 NCCL_SHM_DISABLE="1", NCCL_SOCKET_IFNAME="lo", NCCL_BUFFSIZE="1048576")
    programs.run(header, "behaviours", "processes", 2, "splits", NCCL_COMM_BLOCKING="1")
    # No id needs to be passed if all ranks know an address.
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret"
        secret.write_bytes(bytes(range(32)))
        secret.chmod(0o600)
        programs.run(header, "behaviours", "processes", 2, "groups",
                     NCCL_COMM_ID=f"127.0.0.1:{24000 + os.getpid() % 8000}",
                     RONDO_SECRET_FILE=str(secret))
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        programs.run(header, "behaviours", "threads", 2, "questions", NCCL_DEBUG="INFO",
                     NCCL_DEBUG_FILE=str(log), NCCL_PROTO="Simple", NCCL_COMM_BLOCKING="1")
        text = log.read_text()
        assert "rank" in text, "NCCL_DEBUG_FILE has no log"
        said = re.findall(r"NCCL_\w+(?= has no meaning)", text)
        assert said == ["NCCL_PROTO"], f"no meaning have {said}, says the log:\n{text}"
    print("ok: settings")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--other")
    parser.add_argument("--sanitized", action="store_true")
    given = parser.parse_args()
    check_symbols(given.library, given.other, given.source)
    programs = Programs(given.programs, given.library)
    headers = ["own", "nvidia"] if given.other else ["own"]
    last = headers[-1]
    for ranks in [1, 2, 4] if given.sanitized else RANKS:
        # For some numbers of ranks only a share of the cases runs, each time a different one.
        stride = (1 if ranks in (1, 2, 3, 8) else 5) * (11 if given.sanitized else 1)
        for how in ("processes", "threads", "one"):
            programs.run(last, "grid", how, ranks, stride)
        for how in ("processes", "threads"):
            programs.run(last, "behaviours", how, ranks)
            programs.run("own", "newest", how, ranks)
        if ranks > 1:
            for how in ("processes", "threads"):
                programs.run(last, "growth", how, ranks)
            for victim in sorted({0, ranks - 1}):
                programs.run(last, "killed", ranks, victim)
    if last != "own":
        programs.run("own", "behaviours", "threads", 2)
        programs.run("own", "grid", "threads", 2, 7)
    if not given.sanitized:
        programs.run_client(given.source / "tests/compat/nccl/client.py", 3)
        programs.run(last, "behaviours", "processes", 3, preload=True)
        for ranks in RANKS:
            programs.run(last, "grid", "processes", ranks, 37, preload=True)
    programs.run("own", "streams", driver=True)
    check_settings(programs, last)


main()
