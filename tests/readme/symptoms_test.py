#!/usr/bin/env python3
"""Provokes each symptom of the troubleshooting page, and checks that the page shows the output.

usage: symptoms_test.py SOURCE BUILD [--only WORD]

The page is the section "Troubleshooting" of tools/README.md. Each statement of it, that is, each
indented text, must be the output of one of the provocations below; numbers, addresses, process ids
and names of algorithms may differ. A statement that no provocation claims is a failure. Symptoms
that need what is not here (root, Open MPI, a library that is not built) are printed as not
provoked. At the end the page is changed, and this must be found.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT_S = 100  # of one provocation
TRIES = 3  # a busy machine may show another state of the ranks than the page
COMMAND = re.compile(r"(\$ |rondo |export |mpirun -|(\w+=\S+ )*rondo )")
CODES = ("aborted", "init_failed", "invalid_argument", "mismatch", "peer_dead", "system", "timeout",
         "unresponsive")
# In a statement: what may differ, and how.
WILD = [(r"\b[0-9a-f]{16}\b", r"[0-9a-f]{16}"), (r"\bvm:\d+", r"\\S+:\\d+"),
        (r"\bvm\b", r"\\S+"), (r"\b(by|uses) \w+", r"(by|uses) \\w+"), (r"\bbutte\.\.", r"\\S+"),
        (r"\beth0 \([\d.]+\)", r"\\S+ \\([\\d.]+\\)"),
        (r"\d+(, \d+)+( and \d+)?", r"\\d+(, \\d+)*( and \\d+)?"),
        (r"\d[\d.:]*(?: [KMG]B|[KMG]B)?", r"[\\d.:]+ ?[KMG]?B?")]

# Shell code after which $RANKS have made 100 calls; $JOB is the launcher.
BESIDE = """
start() {
  "$@" >out 2>err &
  JOB=$!
  for TRY in $(seq 300); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done
  RANKS=$(sed -n 's/^ready . //p' out)
}
finish() { kill -CONT $RANKS 2>/dev/null; kill -9 $RANKS $JOB 2>/dev/null; wait; cat out err; }
"""
JOIN = "export RONDO_INIT_TIMEOUT=3 RONDO_RANK=%d RONDO_SIZE=2 RONDO_COMM_ID=%s:23456\n"
NETWORK = "$SOURCE/tests/support/shaped_network"


# What the commands of the table of symptoms show: shell code, and a part of its output.
CAUSES = [
    ("RONDO_SOCKET_IFNAME=nosuch rondo doctor", "error: interface: RONDO_SOCKET_IFNAME=nosuch", ()),
    (JOIN % (1, "nosuch.invalid") + "rondo doctor", "add its name to DNS or /etc/hosts", ()),
    (JOIN % (1, "127.0.0.1") + "rondo doctor", "Connection refused. Remedy: ", ()),
    ("ulimit -f 512; rondo doctor", "warning: file size: files may have only 512 KiB", ()),
    ("rondo doctor -p 999", "warning: oversubscription: 999 ranks share", ()),
    ("mpirun.mpich -n 2 rondo topo -p 2", "is this the MPI of the launcher?", ("mpirun.mpich",)),
    ("RONDO_TRACE=traces rondo run -p 4 -- $TESTS/program_recorded end 1\n"
     "rondo report --trace traces", "the ranks' clocks agree within", ()),
    ("rondo bench allreduce -p 2 -b 8 -e 1M -n 2 -w 1", "# from 65536 bytes on: ", ()),
    ("rondo plan allreduce -p 8 --bytes 1M", "*", ()),
    ("mpicc.openmpi -x c - -o sum <<'END'\n#include <mpi.h>\nint main(void) { int x = 1, y;\n"
     "MPI_Init(0, 0); MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
     "return MPI_Finalize(); }\nEND\nmpirun.mpich -n 2 env RONDO_MPI_STATS=1 "
     "LD_PRELOAD=$BUILD/lib/librondo_mpi.so ./sum", "summed over 1 ranks",
     ("mpicc.openmpi", "mpirun.mpich", "lib/librondo_mpi.so")),
]
# Statements that need several processes at a certain moment: the test that has their texts.
ELSEWHERE = {"init_failed: cannot join the ranks": ("tests/comm/grow_test.cc",
                                                    "they did not call grow() in time"),
             "init_failed: rank 4, a new one": ("tests/comm/grow_test.cc",
                                                "a new one, died before it had joined")}


class Provocation:
    def __init__(self, statements, code, *, root=False, needs=()):
        self.statements, self.code = statements, code  # statements: how they begin
        self.root, self.needs = root, needs  # needs: programs, or files of the build


def slow(options, statement):
    """Four ranks over emulated links, one of which gets slow."""
    return Provocation(
        [statement],
        f"{NETWORK} --ranks 4 {options}@$PWD/slow -- $TESTS/program_endless_allreduce 65536 "
        ">out 2>err &\nJOB=$!\n"
        "for TRY in $(seq 300); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done\n"
        "RANKS=$(sed -n 's/^ready . //p' out)\ntouch slow\nsleep 2\n"
        "for TRY in $(seq 10); do timeout 30 rondo watch --once $RANKS && continue; break; done\n"
        "kill $JOB; wait", root=True)


PROVOCATIONS = [
    Provocation(["warning: descriptors", "warning: own name", "25 checks: a job runs here"],
                "printf '127.0.0.1 localhost\\n127.0.1.1 vm\\n' >hosts\n"
                "unshare --mount --uts sh -c 'hostname vm; mount --bind hosts /etc/hosts\n"
                "ulimit -n 100; exec rondo doctor'", root=True),
    Provocation(["timeout: AllReduce"],
                "RONDO_TIMEOUT=3 rondo run -p 2 -- $TESTS/program_recorded skip 1"),
    Provocation(["job 38c6c4a85ef0490c", "communicator 8b40b1f0bda43a2c", "rank process"],
                "start rondo run -p 4 -- $TESTS/program_recorded skip 2\nset -- $RANKS\nsleep 3\n"
                "COLUMNS=100 rondo watch --once $1\nfinish"),
    Provocation(["job 5d9510442120052c", "communicator 17642c50979a6b53"],
                "start rondo run -p 4 -- $TESTS/program_recorded skip 2\nsleep 3\n"
                "rondo dump $RANKS -o dumps\nrondo report dumps\nfinish"),
    Provocation(["CULPRIT: rank 2 is a straggler"],
                "start rondo run -p 4 -- $TESTS/program_recorded straggler 2\nset -- $RANKS\n"
                "sleep 4\nrondo watch --once $1\nfinish"),
    slow("--mbit 100 --change 0.2:2", "CULPRIT: the network of rank 2 is slow"),
    slow("--per-host 2 --change 0:2", "CULPRIT: the link from ranks 0, 1 to ranks 2, 3"),
    Provocation(["peer_dead: rank 1 died"],
                "rondo run -p 2 -- $TESTS/program_recorded kill 1"),
    Provocation(["peer_dead: rank 1 left"],
                "rondo run -p 2 -- $TESTS/program_recorded leave 1"),
    Provocation(["CULPRIT: the communicator failed: peer_dead"],
                "RONDO_DUMP=dumps rondo run -p 4 -- $TESTS/program_recorded kill 2\n"
                "rondo report dumps"),
    Provocation(["unresponsive: this side"],
                f"GROWING_TALKS=1 {NETWORK} --ranks 5 --per-host 3 --change 0.1:0@$PWD/cut -- "
                "$TESTS/program_growing $PWD/door >out 2>err &\nJOB=$!\n"
                "for TRY in $(seq 300); do [ $(grep -c ready out) = 5 ] && break; sleep 0.1; done\n"
                "touch cut\n"
                "for TRY in $(seq 300); do grep -q refused out && break; sleep 0.1; done\n"
                "kill $JOB; wait; cat out err", root=True),
    Provocation(["mismatch: rank 1 calls AllReduce"],
                "rondo run -p 2 -- $TESTS/program_recorded count 1"),
    Provocation(["mismatch: rank 1 calls Barrier"],
                "rondo run -p 2 -- $TESTS/program_recorded call 1"),
    Provocation(["CULPRIT: rank 2 calls AllReduce"],
                "RONDO_DUMP=dumps rondo run -p 4 -- $TESTS/program_recorded count 2\n"
                "rondo report dumps"),
    Provocation(["unhandled system error"],
                "cat >nccl.py <<'END'\n"
                "import ctypes, os\n"
                "nccl = ctypes.CDLL(os.environ['BUILD'] + '/lib/rondo/libnccl.so.2')\n"
                "nccl.ncclGetLastError.restype = ctypes.c_char_p\n"
                "nccl.ncclGetErrorString.restype = ctypes.c_char_p\n"
                "kept = []\n"
                "try:\n"
                "    while True: kept.append(os.open('/dev/null', os.O_RDONLY))\n"
                "except OSError: pass\n"
                "for free in range(4):\n" # which call fails depends on how many are left
                "    code = nccl.ncclGetUniqueId(ctypes.create_string_buffer(128))\n"
                "    print(nccl.ncclGetErrorString(code).decode(), end=': ')\n"
                "    print(nccl.ncclGetLastError(None).decode())\n"
                "    os.close(kept.pop())\n"
                "END\nulimit -n 40\nRONDO_DEVICE=-1 python3 nccl.py",
                needs=["lib/rondo/libnccl.so.2"]),
    Provocation(["init_failed: rank 0 of 2 cannot join at the rendezvous: no interface"],
                "RONDO_SOCKET_IFNAME=nosuch rondo run -p 2 -- rondo bench allreduce"),
    Provocation(["invalid_argument: host"],
                JOIN % (0, "nosuch.invalid") + "rondo bench allreduce"),
    Provocation(["init_failed: rank 1 of 2 cannot join at the rendezvous: connecting"],
                JOIN % (1, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: creating a communicator timed out"],
                JOIN % (0, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: the rendezvous would be at"],
                JOIN % (0, "0.0.0.0") + "RONDO_COMM_ID=$(hostname -I | cut -d' ' -f1):23456 "
                "rondo bench allreduce"),
    Provocation(["invalid_argument: RONDO_TLS=1"],
                "export RONDO_TLS=1\n" + JOIN % (0, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: rank 1 has RONDO_TLS=0"],
                "rondo run -p 2 -- sh -c 'RONDO_TLS=$((1 - RONDO_RANK)) exec rondo bench "
                "allreduce'", needs=["lib/librondo_tls.so"]),
    Provocation(["invalid_argument: launched as rank 0"],
                "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=1 rondo bench allreduce"),
    Provocation(["WARN shm is not used"],
                "ulimit -f 512; rondo run -p 2 -- rondo bench allreduce -e 8"),
    Provocation(["init_failed: no transport that both"],
                "ulimit -f 512; RONDO_TRANSPORT=shm rondo run -p 2 -- rondo bench allreduce -e 8"),
    Provocation(["rank 0 of 1"],
                "printf '#include <mpi.h>\\n#include <stdio.h>\\nint main(void) { int r, n;\\n"
                "MPI_Init(0, 0); MPI_Comm_rank(MPI_COMM_WORLD, &r);\\n"
                "MPI_Comm_size(MPI_COMM_WORLD, &n); printf(\"rank %%d of %%d\\\\n\", r, n);\\n"
                "return MPI_Finalize(); }\\n' >hello.c\n"
                "mpicc.openmpi hello.c -o hello && mpirun.mpich -n 2 ./hello",
                needs=["mpicc.openmpi", "mpirun.mpich"]),
    Provocation(["init_failed: started by pmi"],
                "RONDO_TRANSPORT=tcp mpirun.mpich -n 2 rondo bench allreduce -e 8",
                needs=["mpirun.mpich"]),
    Provocation(["There are not enough slots"],
                "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi "
                "--host localhost:2 -n 8 true", needs=["mpirun.openmpi"]),
    Provocation(["mpirun.openmpi has detected"], "mpirun.openmpi -n 1 true", root=True,
                needs=["mpirun.openmpi"]),
    Provocation(["INFO AllReduce"],
                "RONDO_DEBUG=info rondo run -p 2 -- $TESTS/program_recorded end 1"),
]


def statements_of(page):
    """The indented texts of the section, without commands. Deeper lines continue a text."""
    section = page.split("\n## Troubleshooting\n")[1]
    found, open_ = [], False
    for line in section.splitlines():
        if not line.startswith("    ") or not line.strip():
            open_ = False
        elif COMMAND.match(line.strip()):
            open_ = line.endswith("\\")
            found += [""] if open_ else []
        elif open_ and line.startswith("     "):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
            open_ = True
    return [" ".join(text.split()) for text in found if text]


def pattern_of(statement):
    """(the regular expression of the text, the code that the error must have or None)"""
    code = re.match(r"([a-z]+(?:_[a-z]+)*): (?=.)", statement)
    code = code.group(1) if code and code.group(1) in CODES else None
    text = statement[len(code) + 2:] if code else statement
    out = ""
    while text:
        for wild, by in WILD:
            if found := re.match(wild, text):
                out, text = out + by.replace("\\\\", "\\"), text[found.end():]
                break
        else:
            if text.startswith("..."):
                out, text = out + ".*", text[3:]
            else:
                word = re.match(r"\w*[A-Za-z_]\w*|.", text)
                out, text = out + re.escape(word.group()), text[word.end():]
    return re.compile(out), code


class Runner:
    def __init__(self, source, build):
        self.source, self.build, self.left_out = source, build, []

    def missing(self, provocation):
        """What this machine or build lacks for the provocation; empty: nothing."""
        if provocation.root and os.geteuid() != 0:
            return "root"
        for need in provocation.needs:
            if not (self.build / need).exists() and not shutil.which(need):
                return need
        return ""

    def output(self, provocation):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("RONDO_", "OMPI_"))}
        environment |= {"PATH": f"{self.build}/bin:{os.environ['PATH']}", "BUILD": str(self.build),
                        "SOURCE": str(self.source), "TESTS": f"{self.build}/tests"}
        with tempfile.TemporaryDirectory(prefix="rondo-symptoms.") as folder:
            done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S), "bash", "-c",
                                   BESIDE + provocation.code], cwd=folder, env=environment,
                                  text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, errors="replace", check=False)
        return done.stdout

    def check(self, provocation, statements):
        """What of these statements was not printed, with the output."""
        if lack := self.missing(provocation):
            self.left_out.append(f"{statements[0][:60]}: needs {lack}")
            return []
        for _ in range(TRIES):
            printed = self.output(provocation)
            unseen = [text for text in statements if not seen(text, printed)]
            if not unseen:
                return []
        return [f"not printed: {text}\n  but:\n{printed}" for text in unseen]


def seen(statement, printed):
    pattern, code = pattern_of(statement)
    return (pattern.search(" ".join(printed.split())) is not None
            and (code is None or re.search(rf"\b{code}\b|what\(\)", printed) is not None))


def faults(page, runner, only=""):
    statements, found = statements_of(page), []
    for start, (file, text) in ELSEWHERE.items():
        shown = [one for one in statements if one.startswith(start)]
        if not all(text in one for one in shown) or text not in (runner.source / file).read_text():
            found.append(f"{file} and the page differ: {text}")
        statements = [one for one in statements if one not in shown]
    for provocation in PROVOCATIONS:
        mine = [one for one in statements if one.startswith(tuple(provocation.statements))]
        statements = [one for one in statements if one not in mine]
        for start in provocation.statements:
            if not any(one.startswith(start) for one in mine):
                found.append(f"the page has no longer: {start}")
        if mine and only in mine[0]:
            begin = time.monotonic()
            lines = runner.check(provocation, mine)
            took = time.monotonic() - begin
            print("\n".join(f"{'no ' if lines else 'yes'} {took:4.1f} s  {one[:80]}"
                            for one in mine), flush=True)
            found += lines
    return found + [f"nothing provokes: {one}" for one in statements]


def causes(runner):
    """Commands of the table that do not show the cause."""
    for code, part, needs in CAUSES:
        cause = Provocation([part], code, needs=needs)
        if lack := runner.missing(cause):
            runner.left_out.append(f"{part}: needs {lack}")
        elif part not in (printed := runner.output(cause)):
            yield f"not shown: {part}\n  but:\n{printed}"
        else:
            print(f"yes {part}", flush=True)


def main():
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    only = sys.argv[4] if sys.argv[3:4] == ["--only"] else ""
    page = (source / "tools/README.md").read_text(encoding="utf-8")
    runner = Runner(source, build)
    found = faults(page, runner, only)
    if not only:
        found += causes(runner)
        print("two mistakes are planted in the page; one of them is a no:")
        wrong = page.replace("did not come", "has not come").replace(
            "### A rank hangs\n", "### A rank hangs\n\n    internal: no such text\n")
        planted = faults(wrong, runner, "init_failed: creating")
        for text in ("has not come", "nothing provokes: internal: no such text"):
            if not any(text in one for one in planted):
                found.append(f"not found: {text}")
    for one in runner.left_out:
        print(f"not provoked here: {one}")
    print("".join(f"FAILED: {one}\n" for one in found) + f"{len(found)} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
