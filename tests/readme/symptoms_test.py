#!/usr/bin/env python3
"""Provokes the symptoms of the troubleshooting page, and checks that the page shows the output.

usage: symptoms_test.py SOURCE BUILD [--only WORD]

The page is the section "Troubleshooting" of tools/README.md. Each statement of it, that is, each
indented text, must be the output of one of the provocations below. Times, sizes, addresses, process
ids and the numbers of calls may differ, and what VARIES lists; ranks and names may not. A statement
that nothing provokes is a failure. Symptoms that need what is not here (root, namespaces, a name
server, Open MPI, a library that is not built) are printed as not provoked. At the end mistakes are
planted in the statements, for example wrong ranks, and each must be found.
"""

import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 90  # of one provocation; the longest takes 15 on an idle machine
TOTAL_S = 1500  # of all; ctest ends this after 1800
TRIES = 3  # a busy machine may show another state of the ranks than the page
COMMAND = re.compile(r"(\$ |rondo |export |mpirun -|(\w+=\S+ )*rondo )")
CODES = ("aborted", "init_failed", "invalid_argument", "mismatch", "peer_dead", "system", "timeout",
         "unresponsive")
# In a statement: what may differ, and how.
WILD = [(r"[0-9a-f]{16}\b", r"[0-9a-f]{16}"), (r"\d\d:\d\d:\d\d\b", r"\d\d:\d\d:\d\d"),
        (r"vm:\d+", r"\S+:\d+"), (r"192\.0\.2\.2\b", r"[\d.]+"), (r":\d{5}\b", r":\d+"),
        (r"#\d+", r"#\d+"), (r"\d[\d.]* s\b", r"[\d.]+ s"), (r"\d+%", r"\d+%"),
        (r"\d[\d.]* ?[KMG]?B\b", r"[\d.]+ ?[KMG]?B"), (r"\d+ bytes\b", r"\d+ bytes"),
        (r"\d+ checks\b", r"\d+ checks"), (r"\d+ of the last \d+\b", r"\d+ of the last \d+"),
        (r"lane \d+ step \d+, tile \d+ of \d+\b", r"lane \d+ step \d+, tile \d+ of \d+")]
# Words of a statement that chance or the machine decides, and what may stand there instead.
VARIES = [("lo (127.0.0.1), eth0 (192.0.2.2), ...", r"\S+ \([\d.a-f:]+\)"),
          ("uses oneshot", r"uses \w+"),
          ("reaches rank 1", r"reaches rank [01]"),
          ("ranks 0, 1, 3 were in", r"ranks? [013]((, |-)[013])* (was|were) in"),
          ("from rank 3 to rank 2", r"from (rank [013] to rank 2|rank 2 to rank [013])"),
          ("from ranks 0, 1 to ranks 2, 3", r"from ranks (0, 1 to ranks 2, 3|2, 3 to ranks 0, 1)"),
          # Which of two communicators notices a death first.
          ("rank 0 died: its process", r"rank [02] died: its process"),
          ("the ranks are in AllReduce", r"(the ranks are in|the last call was) AllReduce")]

# Shell code after which $RANKS have made 100 calls; $JOB is the launcher.
BESIDE = """
start() {
  "$@" >out 2>err &
  JOB=$!
  for TRY in $(seq 300); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done
  RANKS=$(sort -k 2n out | sed -n 's/^ready . //p')
}
# Looks until something is found.
look() { for TRY in $(seq 10); do rondo watch --once "$@" && continue; break; done; }
finish() { kill -CONT $RANKS 2>/dev/null; kill -9 $RANKS $JOB 2>/dev/null; wait; cat out err; }
"""
JOIN = "export RONDO_INIT_TIMEOUT=3 RONDO_RANK=%d RONDO_SIZE=2 RONDO_COMM_ID=%s:$PORT\n"
# Rondo's module is built for Open MPI if that is installed.
BOTH_MPI = ("mpicc.openmpi", "mpirun.mpich", "lib/librondo_bootstrap_mpi.so")
NETWORK = "$SOURCE/tests/support/shaped_network"

class Provocation:
    def __init__(self, statements, code, *needs):
        self.statements, self.code = statements, code  # statements: how they begin
        self.needs = needs  # names in PROBES, programs, or files of the build
        self.printed = ""  # what showed the statements


def slow(options, statement):
    """Four ranks over emulated links, one of which gets slow."""
    return Provocation(
        [statement],
        f"start {NETWORK} --ranks 4 {options}@$PWD/slow -- $TESTS/program_endless_allreduce 65536\n"
        "touch slow\nsleep 2\nlook $RANKS\nkill $JOB; wait", "network namespaces")


PROVOCATIONS = [
    Provocation(["warning: descriptors", "25 checks: a job runs here"],
                "ulimit -n 100; rondo doctor"),
    Provocation(["warning: own name"],
                "printf '127.0.0.1 localhost\\n127.0.1.1 vm\\n' >hosts\n"
                "unshare --mount --uts sh -c 'hostname vm; mount --bind hosts /etc/hosts\n"
                "exec rondo doctor'", "mount namespaces", "a route to other machines"),
    Provocation(["timeout: AllReduce"],
                "RONDO_TIMEOUT=3 rondo run -p 2 -- $TESTS/program_recorded skip 1"),
    Provocation(["job 38c6c4a85ef0490c", "communicator 8b40b1f0bda43a2c", "rank process"],
                "export RONDO_ALGO=butterfly\n"
                "start rondo run -p 4 -- $TESTS/program_recorded skip 2\nset -- $RANKS\nsleep 2\n"
                "look $1\nfinish"),
    Provocation(["job 5d9510442120052c", "communicator 17642c50979a6b53"],
                "export RONDO_ALGO=butterfly\n"
                "start rondo run -p 4 -- $TESTS/program_recorded skip 2\nsleep 3\n"
                "rondo dump $RANKS -o dumps\nrondo report dumps\nfinish"),
    Provocation(["CULPRIT: rank 2 is a straggler"],
                "start rondo run -p 4 -- $TESTS/program_recorded straggler 2\nset -- $RANKS\n"
                "sleep 4\nlook $1\nfinish"),
    slow("--mbit 100 --change 0.2:2", "CULPRIT: the network of rank 2 is slow"),
    slow("--per-host 2 --change 0:2", "CULPRIT: the link from ranks 0, 1 to ranks 2, 3"),
    Provocation(["peer_dead: rank 1 died"],
                "rondo run -p 2 -- $TESTS/program_recorded kill 1"),
    Provocation(["peer_dead: rank 1 left"],
                "rondo run -p 2 -- $TESTS/program_recorded leave 1"),
    Provocation(["CULPRIT: the communicator failed: peer_dead"],
                "RONDO_DUMP=dumps rondo run -p 4 -- $TESTS/program_recorded kill 2\n"
                "rondo report dumps"),
    Provocation(["the communicator failed for the same reason"],
                "RONDO_DUMP=dumps rondo run -p 4 -- $TESTS/program_recorded kill_pairs 2\n"
                "rondo report dumps"),
    Provocation(["unresponsive: this side"],
                f"GROWING_TALKS=1 {NETWORK} --ranks 5 --per-host 3 --change 0.1:0@$PWD/cut -- "
                "$TESTS/program_growing $PWD/id >out 2>err &\nJOB=$!\n"
                "for TRY in $(seq 300); do [ $(grep -c ready out) = 5 ] && break; sleep 0.1; done\n"
                "touch cut\n"
                "for TRY in $(seq 300); do grep -q refused out && break; sleep 0.1; done\n"
                "kill $JOB; wait; cat out err", "network namespaces"),
    # The ranks do not grow while rank 1 is stopped: the first newcomer waits in vain. The second
    # one is stopped before they grow, and killed while they wait for it.
    Provocation(["init_failed: cannot join the ranks", "init_failed: rank 4, a new one"],
                "export RONDO_HEARTBEAT=60\n"
                "start rondo run -p 4 -- $TESTS/program_growing $PWD/id\n"
                "set -- $RANKS\nkill -STOP $2\n"
                "RONDO_INIT_TIMEOUT=3 timeout 20 $TESTS/program_growing $PWD/id 4\n"
                "$TESTS/program_growing $PWD/id 4 & NEW=$!\nsleep 3\nkill -STOP $NEW\n"
                "kill -CONT $2\nsleep 3\nkill -9 $NEW\n"
                "for TRY in $(seq 100); do grep -q 'grows later' err && break; sleep 0.1; done\n"
                "finish"),
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
                "lib/rondo/libnccl.so.2"),
    Provocation(["init_failed: rank 0 of 2 cannot join at the rendezvous: no interface"],
                # A rank that succeeds does not end the others before they print.
                "RONDO_SOCKET_IFNAME=nosuch rondo run -p 2 -- sh -c 'rondo bench allreduce; true'"),
    Provocation(["invalid_argument: host"],
                JOIN % (0, "nosuch.invalid") + "rondo bench allreduce", "a name server"),
    Provocation(["init_failed: rank 1 of 2 cannot join at the rendezvous: connecting"],
                JOIN % (1, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: rank 1 did not join the rendezvous"],
                "rondo run -p 2 -- sh -c '[ $RONDO_RANK = 1 ] || exec rondo bench allreduce'"),
    Provocation(["init_failed: creating a communicator timed out"],
                JOIN % (0, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: the rendezvous would be at"],
                JOIN % (0, "$ADDRESS") + "rondo bench allreduce", "a route to other machines"),
    Provocation(["invalid_argument: RONDO_TLS=1"],
                "export RONDO_TLS=1\n" + JOIN % (0, "127.0.0.1") + "rondo bench allreduce"),
    Provocation(["init_failed: rank 1 has RONDO_TLS=0"],
                # Rank 0 comes first: it is rank 1 that is refused.
                "rondo run -p 2 -- sh -c 'sleep $RONDO_RANK\n"
                "RONDO_TLS=$((1 - RONDO_RANK)) exec rondo bench allreduce'",
                "lib/librondo_tls.so"),
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
                "mpicc.openmpi", "mpirun.mpich"),
    Provocation(["init_failed: started by pmi"],
                "mpirun.mpich -n 2 sh -c 'RONDO_TRANSPORT=tcp rondo bench allreduce -e 8; true'",
                *BOTH_MPI),
    Provocation(["There are not enough slots"],
                "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi "
                "--host localhost:2 -n 8 true", "mpirun.openmpi"),
    Provocation(["mpirun.openmpi has detected"], "mpirun.openmpi -n 1 true", "root",
                "mpirun.openmpi"),
    Provocation(["INFO AllReduce"],
                "RONDO_DEBUG=info rondo run -p 2 -- $TESTS/program_recorded end 1"),
]

# What the commands of the table of symptoms show.
CAUSES = [
    Provocation(["error: interface: RONDO_SOCKET_IFNAME=nosuch"],
                "RONDO_SOCKET_IFNAME=nosuch rondo doctor"),
    Provocation(["add its name to DNS or /etc/hosts"],
                JOIN % (1, "nosuch.invalid") + "rondo doctor", "a name server"),
    Provocation(["Connection refused. Remedy: "], JOIN % (1, "127.0.0.1") + "rondo doctor"),
    Provocation(["warning: file size: files may have only 512 KiB"],
                "ulimit -f 512; rondo doctor"),
    Provocation(["warning: oversubscription: 999 ranks share"], "rondo doctor -p 999"),
    Provocation(["is this the MPI of the launcher?"], "mpirun.mpich -n 2 rondo topo -p 2",
                *BOTH_MPI),
    Provocation(["the ranks' clocks agree within"],
                "RONDO_TRACE=traces rondo run -p 4 -- $TESTS/program_recorded end 1\n"
                "rondo report --trace traces"),
    Provocation(["# from 65536 bytes on: "], "rondo bench allreduce -p 2 -b 8 -e 1M -n 2 -w 1"),
    Provocation(["*"], "rondo plan allreduce -p 8 --bytes 1M"),
    Provocation(["summed over 1 ranks"],
                "mpicc.openmpi -x c - -o sum <<'END'\n#include <mpi.h>\n"
                "int main(void) { int x = 1, y;\nMPI_Init(0, 0);\n"
                "MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);\n"
                "return MPI_Finalize(); }\nEND\nmpirun.mpich -n 2 env RONDO_MPI_STATS=1 "
                "LD_PRELOAD=$BUILD/lib/librondo_mpi.so ./sum", "mpicc.openmpi", "mpirun.mpich",
                "lib/librondo_mpi.so"),
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


@functools.cache
def pattern_of(statement):
    """The regular expression of the text. Programs print an error's code before its text."""
    code = re.match(r"([a-z]+(?:_[a-z]+)*): (?=.)", statement)
    code = code.group(1) if code and code.group(1) in CODES else ""
    text = statement[len(code) + 2:] if code else statement
    out = code and rf"\b{code}(: | -?\d+ )"  # program_growing prints the culprit between them
    wild = [(re.escape(words), by) for words, by in VARIES] + WILD + [(r"\.\.\.", ".*")]
    while text:
        for what, by in wild:
            if found := re.match(what, text):
                out += by
                break
        else:
            found = re.match(r"\w+|.", text)
            out += re.escape(found.group())
        text = text[found.end():]
    return re.compile(out)


def times_seen(statement, printed):
    return sum(1 for _ in pattern_of(statement).finditer(" ".join(printed.split())))


def wrong_ones(statement):
    """The statement with other ranks, names and words, one at a time."""
    spans = [found.span() for found in re.finditer(r"\d(?= vm:)|\bRONDO_\w+|(?<==)\d", statement)]
    for ranks in re.finditer(r"\branks? (\d+(?:(?:, | and | of )\d+)*)", statement):
        begin = ranks.start(1)
        spans += [(begin + number.start(), begin + number.end())
                  for number in re.finditer(r"\d+", ranks.group(1))]
    for begin, end in spans:
        other = "9" if statement[begin].isdigit() else "RONDO_OTHER"
        yield statement[:begin] + other + statement[end:]
    yield statement + " planted"


def own_address():
    """The address from which this machine reaches others; empty: there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
            return one.getsockname()[0]
        except OSError:
            return ""


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


# Shell code that fails if something else than a program or a file is missing here.
PROBES = {
    "root": "[ $(id -u) = 0 ]",
    "mount namespaces":
        "unshare --mount --uts sh -c 'hostname vm && mount --bind /etc/hosts /etc/hosts'",
    "network namespaces": NETWORK + " --probe; [ $? != 77 ]",
    "a route to other machines": '[ "$ADDRESS" ]',
    "a name server": "python3 -c 'import socket\n"
                     "try: socket.getaddrinfo(\"nosuch.invalid\", 1)\n"
                     "except socket.gaierror as e: exit(e.errno != socket.EAI_NONAME)\nexit(1)'",
}


class Runner:
    def __init__(self, source, build):
        self.source, self.build, self.left_out = source, build, []
        self.address, self.end = own_address(), time.monotonic() + TOTAL_S

    def shell(self, code, limit):
        """(the output, the exit status; 124 or 137: it took too long)"""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("RONDO_", "OMPI_"))}
        with tempfile.TemporaryDirectory(prefix="rondo-symptoms.",
                                         ignore_cleanup_errors=True) as folder, \
                tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            environment |= {"PATH": f"{self.build}/bin:{os.environ['PATH']}", "LC_ALL": "C",
                            "BUILD": str(self.build), "SOURCE": str(self.source),
                            "TESTS": f"{self.build}/tests", "ADDRESS": self.address,
                            "PORT": str(free_port()), "XDG_CACHE_HOME": f"{folder}/cache",
                            "RES_OPTIONS": "timeout:1 attempts:1"}
            # A pipe would stay open if a process outlived the limit.
            status = subprocess.run(["timeout", "-k", "5", str(limit), "bash", "-c", BESIDE + code],
                                    cwd=folder, env=environment, check=False, stdout=output,
                                    stderr=output, stdin=subprocess.DEVNULL).returncode
            output.seek(0)
            return output.read(), status

    @functools.cache
    def missing(self, need):
        """Whether this machine or build lacks it."""
        if need in PROBES:
            return self.shell(PROBES[need], 20)[1] != 0
        return not (self.build / need).exists() and not shutil.which(need)

    def check(self, provocation, statements):
        """What of these statements was not printed, with the output."""
        if lack := [need for need in provocation.needs if self.missing(need)]:
            self.left_out.append(f"{statements[0][:60]}: needs {lack[0]}")
            return []
        printed, unseen, begin = "", statements, time.monotonic()
        for _ in range(TRIES):
            limit = min(LIMIT_S, int(self.end - time.monotonic()))
            if limit < 1:
                printed += "\n(no time is left)"
                break
            printed, status = self.shell(provocation.code, limit)
            # A statement may be on the page twice: then it is printed twice.
            unseen = [text for text in statements
                      if times_seen(text, printed) < statements.count(text)]
            if not unseen:
                provocation.printed = printed
            if not unseen or status in (124, 137):  # what hangs would hang again
                break
        took = time.monotonic() - begin
        for text in statements:
            print(f"{'no ' if text in unseen else 'yes'} {took:4.1f} s  {text[:80]}", flush=True)
        return [f"not printed: {text}\n  but:\n{printed}" for text in unseen]


def provoked_by(page):
    """The provocations with their statements of the page, and what is wrong with the page."""
    statements, pairs, found = statements_of(page), [], []
    for provocation in PROVOCATIONS:
        mine = [one for one in statements if one.startswith(tuple(provocation.statements))]
        statements = [one for one in statements if one not in mine]
        pairs += [(provocation, mine)] if mine else []
        found += [f"the page has no longer: {start}" for start in provocation.statements
                  if not any(one.startswith(start) for one in mine)]
    return pairs, found + [f"nothing provokes: {one}" for one in statements]


def planted(page, pairs):
    """Mistakes that are not found."""
    wrong = page.replace("### A rank hangs\n", "### A rank hangs\n\n    internal: no such text\n")
    if "nothing provokes: internal: no such text" not in provoked_by(wrong)[1]:
        yield "a statement that nothing provokes"
    count = 0
    for provocation, statements in pairs:
        for text in statements if provocation.printed else []:
            for other in wrong_ones(text):
                count += 1
                if times_seen(other, provocation.printed):
                    yield other
    print(f"{count} mistakes were planted in the statements")


def main():
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    only = sys.argv[4] if sys.argv[3:4] == ["--only"] else ""
    page = (source / "tools/README.md").read_text(encoding="utf-8")
    runner = Runner(source, build)
    pairs, found = provoked_by(page)
    pairs += [(cause, cause.statements) for cause in CAUSES]
    for provocation, statements in pairs:
        if only in statements[0]:
            found += runner.check(provocation, statements)
    found += [f"planted, but not found: {one}" for one in planted(page, pairs)]
    for one in runner.left_out:
        print(f"not provoked here: {one}")
    print("".join(f"FAILED: {one}\n" for one in found) + f"{len(found)} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
