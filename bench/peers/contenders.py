"""The contenders of bench/peers/run: how each is built and started."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UCC_LACKS = {"scatter"}  # UCC 1.3: "Operation is not supported"
ONECCL_LACKS = {"gather", "scatter"}
# For these, Rondo's size counts the blocks of all ranks, and the MPI programs' size one block.
ALL_BLOCKS = {"allgather", "gather", "scatter", "alltoall"}


def pairs(output):
    """{bytes: microseconds} from lines of two numbers."""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit():
            found[int(words[0])] = float(words[1])
    return found


def first_line(command, environment=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT,
                              env={**os.environ, **(environment or {})}).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


class Failed(Exception):
    """A contender failed, or printed something else than requested."""


class Contender:
    """A way to time one collective: command(collective, transport, ranks, sizes), environment.
    A process for each size, as for Rondo: which pages its buffers get is worth up to 30%."""

    def __init__(self, name, peer, command, environment=lambda transport: {}, able=None):
        self.name, self.peer, self.command = name, peer, command
        self.environment = environment
        self.able = able or (lambda collective, transport, ranks: True)

    def run(self, collective, transport, ranks, size, limit_s):
        """The microseconds of a call of this size."""
        environment = {**os.environ, **self.environment(transport)}
        command = self.command(collective, transport, ranks, [size])
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=limit_s, check=True)
            return pairs(done.stdout)[size]
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: {' '.join(command)}: not done in {limit_s} s") from None
        except KeyError:
            raise Failed(f"{self.name}: {' '.join(command)}: no time printed") from None
        except subprocess.CalledProcessError as error:
            raise Failed(f"{self.name}: {' '.join(command)}\n{error.stdout}"
                         f"{error.stderr}") from error

    def version(self):
        """The first words of what the MPI library says of itself; nothing if it says nothing."""
        line = first_line(self.command("version", "shm", 1, []), self.environment("shm"))
        return " ".join(line.split(",")[0].split())


class Rondo(Contender):
    """`rondo bench`, one size at a time."""

    def __init__(self, program, name="Rondo", flags=(), able=None):
        super().__init__(name, False, None, able=able)
        self.program, self.flags = program, flags

    def run(self, collective, transport, ranks, size, limit_s):
        whole = str(size * ranks if collective in ALL_BLOCKS else size)
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            small, large = int(whole) < 64 << 10, int(whole) >= 1 << 20
            warm_up = "300" if small else "2" if large else "20"  # as in mpi_bench.c
            command = [self.program, "bench", collective, "-p", str(ranks), "--transport",
                       transport, "-b", whole, "-e", whole, "--time", "median", "-a", "3",
                       "-w", warm_up, "-J", report.name, *self.flags]
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s,
                                  check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
            rows = json.load(open(report.name, encoding="utf-8"))["results"]
        # MPI_Bcast has one buffer.
        return rows[0]["in_place" if collective == "broadcast" else "out_of_place"]["p50"]


def use_ucx(peers):
    """Makes all contenders use the UCX that bench/peers/get has installed. Returns the version of
    the UCX under Open MPI."""
    found = next((peers / "ucx").glob("lib/python*/site-packages/libucx/lib"), None)
    own = peers / "openmpi" / "lib" / "openmpi"
    if found:
        others = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = f"{found}:{others}" if others else str(found)
    folder = found or (own if own.exists() else None)
    ask = ("import ctypes, sys; ask = ctypes.CDLL(sys.argv[1]).ucp_get_version_string; "
           "ask.restype = ctypes.c_char_p; print(ask().decode())")
    return first_line([sys.executable, "-c", ask,
                       str(folder / "libucp.so.0") if folder else "libucp.so.0"])


class Installed:
    """An MPI that bench/peers/get has installed, or the system's; false if there is neither."""

    def __init__(self, peers, name, system):
        self.at = peers / name
        self.own = (self.at / "bin" / "mpirun").exists()
        self.mpicc, self.mpirun = f"mpicc.{system}", f"mpirun.{system}"
        self.flags = []
        if self.own:
            self.mpicc = "cc" if system == "impi" else str(self.at / "bin" / "mpicc")
            self.mpirun = str(self.at / "bin" / "mpirun")
        if self.own and system == "impi":  # its mpicc needs variables that its packages do not set
            lib = self.at / "lib"
            self.flags = [f"-I{self.at}/include", f"-L{lib}", "-lmpi", f"-Wl,-rpath,{lib}"]

    def compiled(self, target, *flags):
        return compiled(self.mpicc, "mpi_bench.c", target, *flags, *self.flags)


def compiled(compiler, source, target, *flags):
    if not shutil.which(compiler):
        return None
    done = subprocess.run([compiler, "-O2", str(HERE / source), "-o", str(target), *flags],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return str(target)
    print(f"{source} does not build with {compiler}: left out")
    return None


def contenders(build, older, folder, peers):
    """Returns the contenders that are installed, Rondo first; the limit; its program or None."""
    rondo = build / "bin" / "rondo"
    if not rondo.exists():
        sys.exit(f"{rondo} is missing: build Rondo first (cmake --build --preset release)")
    mapped = Rondo(str(rondo), "Rondo, mapped", ["--mapped"],
                   lambda c, t, p: t == "shm" and c == "allreduce")
    found, missing = [Rondo(str(rondo)), mapped], []
    if older:
        if not (older / "bin" / "rondo").exists():
            sys.exit(f"--older: {older / 'bin' / 'rondo'} is missing")
        found.insert(1, Rondo(str(older / "bin" / "rondo"), "older Rondo"))
    open_mpi, mpich_at = Installed(peers, "openmpi", "openmpi"), Installed(peers, "mpich", "mpich")
    intel = Installed(peers, "impi", "impi")
    openmpi = open_mpi.compiled(folder / "openmpi_bench")
    mpich = mpich_at.compiled(folder / "mpich_bench")
    impi = intel.own and intel.compiled(folder / "impi_bench")
    ccl_at = Installed(peers, "oneccl", "impi")
    # There is a library for CPUs, static only, and one that can use GPUs, too. The first one is
    # faster for small calls, the second one for large ones.
    oneccl = {name: ccl_at.own and ccl_at.compiled(
        folder / name.replace(" ", "_"), "-DSHIM", str(HERE / "oneccl_shim.cc"),
        *libraries, "-lstdc++", "-lm")
        for name, libraries in (
            ("oneCCL", [f"{ccl_at.at}/lib/ccl/cpu/lib/libccl.a", "-lirc", "-lhwloc"]),
            ("oneCCL for GPUs", ["-lccl", "-Wl,--disable-new-dtags"]))}
    gloo = compiled("g++", "gloo_bench.cc", folder / "gloo_bench", "-std=c++17", "-lgloo",
                    "-pthread")
    limit = compiled("g++", "limit.cc", folder / "limit", "-std=c++20", "-O3", "-march=native",
                     "-pthread")
    at = os.environ.pop("RONDO_UCC", None)  # none of Rondo's own
    ucc = at and open_mpi.compiled(folder / "ucc_bench", "-DSHIM", str(HERE / "ucc_shim.c"),
                                   f"-I{at}/include", f"-L{at}/lib", "-lucc",
                                   f"-Wl,-rpath,{at}/lib")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def sizes_of(sizes):
        return [str(size) for size in sizes]

    memory = "sm" if open_mpi.own else "vader"  # renamed in Open MPI 5

    def mpirun(*options, program=openmpi):
        return lambda c, t, p, sizes: [
            open_mpi.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(p),
            *[word.replace("BTL", memory if t == "shm" else "tcp") for word in options],
            program, c, *sizes_of(sizes)]

    if openmpi:
        interposer = build / "lib" / "librondo_mpi.so"
        if interposer.exists():
            found.append(Contender(
                "Rondo under MPI", False, mpirun(),
                lambda t: {**root, "LD_PRELOAD": str(interposer), "RONDO_TRANSPORT": t}))
        plain = ["--mca", "pml", "ob1", "--mca", "btl", "self,BTL"]
        found.append(Contender("Open MPI", True, mpirun(*plain), lambda t: root,
                               lambda c, t, p: t != "ucx"))
        ucx_transports = {"shm": "self,posix,sysv,cma", "tcp": "self,tcp"}
        ucx = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
               "--mca", "pml_ucx_devices", "any"]

        def ucx_environment(transport):
            if transport == "ucx":
                return root
            return {**root, "UCX_TLS": ucx_transports[transport], "UCX_NET_DEVICES": "all"}

        over_ucx = Contender("Open MPI over UCX", True, mpirun(*ucx), ucx_environment)
        try:
            over_ucx.run("barrier", "shm", 2, 8, 60)
            found.append(over_ucx)
        except Failed:
            missing.append(over_ucx.name)
        if ucc:
            # Its ranks spin without yielding, as MPICH's do. MPI only starts them.
            start = ["--mca", "pml", "ob1", "--mca", "btl", f"self,{memory}"]
            found.append(Contender(
                "UCC", True, mpirun(*start, program=ucc), ucx_environment,
                lambda c, t, p: c not in UCC_LACKS and p <= len(os.sched_getaffinity(0))))
        else:
            missing.append("UCC (RONDO_UCC)")
    else:
        missing.append("Open MPI")
    def each_has_a_core(collective, transport, ranks):
        return transport != "ucx" and ranks <= len(os.sched_getaffinity(0))

    if mpich:
        # MPICH spins without yielding: with more ranks than cores it takes milliseconds a call.
        found.append(Contender(
            "MPICH", True,
            lambda c, t, p, sizes: [mpich_at.mpirun, "-n", str(p), mpich, c, *sizes_of(sizes)],
            lambda t: {} if t == "shm" else {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "self,tcp",
                                             "UCX_NET_DEVICES": "all"},
            each_has_a_core))
    else:
        missing.append("MPICH")

    def hydra(at, program):
        return lambda c, t, p, sizes: [f"{at}/bin/mpiexec.hydra", "-ppn", str(p), "-n", str(p),
                                       program, c, *sizes_of(sizes)]

    def intel_environment(at, transport):
        # The program pins its ranks. Unless told otherwise Intel MPI uses shared memory within a
        # machine, whatever the fabric is.
        fabric = {"I_MPI_FABRICS": "shm"} if transport == "shm" else {
            "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "I_MPI_COLL_INTRANODE": "pt2pt"}
        return {"I_MPI_ROOT": str(at), "I_MPI_PIN": "0", **fabric}

    if impi:
        # It spins without yielding, too.
        found.append(Contender("Intel MPI", True, hydra(intel.at, impi),
                               lambda t: intel_environment(intel.at, t), each_has_a_core))
    else:
        missing.append("Intel MPI (bench/peers/get)")
    for name, program in oneccl.items():
        if not program:
            missing.append(f"{name} (bench/peers/get)")
            continue
        # By default a thread of each rank does the work, and spins on a core of its own.
        found.append(Contender(
            name, True, hydra(ccl_at.at, program),
            lambda t: {**intel_environment(ccl_at.at, t), "CCL_ATL_TRANSPORT": "mpi",
                       "CCL_WORKER_OFFLOAD": "0"},
            lambda c, t, p: t == "shm" and c not in ONECCL_LACKS and each_has_a_core(c, t, p)))
    if gloo:
        found.append(Contender("Gloo", True,
                               lambda c, t, p, sizes: [gloo, str(p), *sizes_of(sizes)],
                               able=lambda c, t, p: (c, t) == ("allreduce", "tcp")))
    else:
        missing.append("Gloo")
    floor = Contender("limit", False,
                      lambda c, t, p, sizes: [limit, t, str(p), *sizes_of(sizes)],
                      able=lambda c, t, p: (c == "allreduce" and t != "ucx"
                                            and (t == "shm" or p == 2))
                      ) if limit else None
    if missing:
        print(f"Not installed, left out: {', '.join(missing)}\n")
    return found, floor, limit
