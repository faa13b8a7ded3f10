#!/usr/bin/env python3
"""Runs PyTorch's own "nccl" backend on a GPU with Rondo's libnccl.so.2 in place of NVIDIA's.

usage: torch_gpu.py --library LIBRARY [--python PROGRAM] [--ranks N,N...] [--seconds S]
                    [--limit S] [--logs FOLDER]

All ranks share the first GPU, as processes of their own and then as threads of one process. Each
check has --limit seconds (default 20), the whole run --seconds (default 240). After a check that
failed or hung, its processes are killed and new ones do the remaining checks. Prints a line for
each check, and a skipped check ("SKIPPED:") without failing where torch sees no GPU. Exit status: 0
success, 1 a check failed. This is one file, so that it can be copied to a GPU machine on its own.
"""
import argparse
import ctypes
import faulthandler
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

# Checks of ranks that are processes -------------------------------------------------------------


class Ranks:
    """What a check gets: its rank, the number of ranks, and torch's modules."""

    def __init__(self, rank, size, library):
        import torch
        import torch.distributed as dist
        self.rank, self.size, self.library = rank, size, library
        self.torch, self.dist = torch, dist
        self.device = torch.device("cuda", 0)

    def full(self, count, value, dtype=None):
        return self.torch.full((count,), value, dtype=dtype or self.torch.float32,
                               device=self.device)

    def equal(self, found, value, what):
        expected = self.torch.as_tensor(value, dtype=found.dtype, device=found.device)
        if not bool((found == expected).all()):
            wrong = int((found != expected).sum())
            raise AssertionError(f"{what}: {wrong} of {found.numel()} elements differ, e.g. "
                                 f"{found.flatten()[:4].tolist()}, expected {value}")


def check_loaded(ranks):
    """The functions that torch's libraries find are Rondo's. (Some versions of torch also map
    NVIDIA's library, whose functions come later in the search.)"""
    ranks.full(1, 1.0)
    libraries = ctypes.CDLL(None)
    address = ctypes.cast(libraries.ncclAllReduce, ctypes.c_void_p).value
    found, mapped = None, set()
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(word, 16) for word in line.split()[0].split("-"))
        name = line.split()[-1]
        if "libnccl" in name:
            mapped.add(name)
        if first <= address < last:
            found = name
    assert found == str(ranks.library), f"ncclAllReduce is in {found}"
    version = ctypes.c_int()
    libraries.ncclGetVersion(ctypes.byref(version))
    others = sorted(mapped - {found})
    return (f"torch {ranks.torch.__version__}, compiled with NCCL "
            f"{ranks.torch.cuda.nccl.version()}; runs {version.value}"
            + (f", also maps {others}" if others else ""))


def check_first(ranks):
    ones = ranks.full(4, 1.0)
    ranks.dist.all_reduce(ones)
    ranks.equal(ones, ranks.size, "sum of ones")


def check_all_reduce(ranks):
    torch, op, size, me = ranks.torch, ranks.dist.ReduceOp, ranks.size, ranks.rank
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
             torch.int32, torch.int64]
    product = 1
    for rank in range(size):
        product *= 1 + rank % 2
    for dtype in types:
        for count in (1, 3, 1023, 65537):
            cases = [(op.SUM, me + 1, size * (size + 1) // 2), (op.MAX, me, size - 1),
                     (op.MIN, me + 2, 2), (op.PRODUCT, 1 + me % 2, product)]
            if dtype.is_floating_point:
                cases.append((op.AVG, 2 * me, size - 1))
            for kind, mine, expected in cases:
                data = ranks.full(count, mine, dtype)
                ranks.dist.all_reduce(data, op=kind)
                ranks.equal(data, expected, f"{kind} of {count} {dtype}")
    return f"{len(types)} types"


def check_premul_sum(ranks):
    data = ranks.full(1001, ranks.rank + 1.0)
    ranks.dist.all_reduce(data, op=ranks.dist._make_nccl_premul_sum(0.5))
    ranks.equal(data, ranks.size * (ranks.size + 1) / 4, "scaled sum")


def check_large(ranks):
    count = (8 << 20) + 5
    data = ranks.torch.arange(count, device=ranks.device, dtype=ranks.torch.float32) % 1000
    expected = data * (ranks.size * (ranks.size + 1) // 2)
    data *= ranks.rank + 1
    ranks.dist.all_reduce(data)
    ranks.equal(data - expected, 0, "32 MiB")


def check_broadcast(ranks):
    for root in range(ranks.size):
        data = ranks.full(12345, ranks.rank + 7.0)
        ranks.dist.broadcast(data, src=root)
        ranks.equal(data, root + 7, f"broadcast from {root}")
        data = ranks.full(777, ranks.rank + 1.0)
        ranks.dist.reduce(data, dst=root)
        if ranks.rank == root:
            ranks.equal(data, ranks.size * (ranks.size + 1) // 2, f"reduce to {root}")


def check_gathers(ranks):
    torch, size, me = ranks.torch, ranks.size, ranks.rank
    for count in (1, 1001, 40000):
        whole = ranks.full(size * count, -1.0)
        ranks.dist.all_gather_into_tensor(whole, ranks.full(count, float(me)))
        ranks.equal(whole, torch.arange(size).repeat_interleave(count), "all_gather_into_tensor")
        parts = [ranks.full(count, -1.0) for _ in range(size)]
        ranks.dist.all_gather(parts, ranks.full(count, float(me)))
        for rank, part in enumerate(parts):
            ranks.equal(part, rank, "all_gather")
        mine = ranks.full(count, -1.0)
        blocks = torch.arange(size, device=ranks.device).repeat_interleave(count).float()
        ranks.dist.reduce_scatter_tensor(mine, blocks * (me + 1))
        ranks.equal(mine, me * size * (size + 1) // 2, "reduce_scatter_tensor")
        got = ranks.full(size * count, -1.0)
        ranks.dist.all_to_all_single(got, blocks * 10 + me)
        ranks.equal(got, me * 10 + torch.arange(size).repeat_interleave(count), "all_to_all_single")
    # parts of different sizes: rank r sends r + s + 1 elements to rank s
    inputs = [me + to + 1 for to in range(size)]
    got = ranks.full(sum(inputs), -1.0)
    ranks.dist.all_to_all_single(got, ranks.full(sum(inputs), float(me)), inputs, inputs)
    ranks.equal(got, torch.cat([torch.full((n,), r) for r, n in enumerate(inputs)]),
                "all_to_all_single with sizes")
    objects = [None] * size
    ranks.dist.all_gather_object(objects, {"rank": me})
    assert [one["rank"] for one in objects] == list(range(size)), objects


def check_messages(ranks):
    dist, size, me = ranks.dist, ranks.size, ranks.rank
    right, left = (me + 1) % size, (me - 1) % size
    for count in (1, 4099, 1 << 20):
        got = ranks.full(count, -1.0)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, ranks.full(count, me + 1.0),
                                                       right),
                                            dist.P2POp(dist.irecv, got, left)]):
            work.wait()
        ranks.equal(got, left + 1, f"batch of {count}")
    data = ranks.full(10, 5.0 if me == 0 else 0.0)
    if me == 0:
        dist.send(data, 1)
    elif me == 1:
        dist.recv(data, 0)
        ranks.equal(data, 5, "send and recv")


def check_barrier(ranks):
    for _ in range(3):
        ranks.dist.barrier()


def check_streams(ranks):
    torch, size = ranks.torch, ranks.size
    side = torch.cuda.Stream()
    for turn in range(5):
        with torch.cuda.stream(side):
            data = ranks.full(100003, 1.0)
            for _ in range(20):
                data = data * 1.0
            work = ranks.dist.all_reduce(data, async_op=True)
        other = ranks.full(500, 2.0 + turn)
        ranks.dist.all_reduce(other)
        with torch.cuda.stream(side):
            work.wait()
            data += 1
        side.synchronize()
        ranks.equal(data, size + 1, "side stream")
        ranks.equal(other, size * (2 + turn), "current stream")
    works = [ranks.dist.all_reduce(ranks.full(n, 1.0), async_op=True) for n in (1, 100, 10000)]
    for work in works:
        work.wait()
    torch.cuda.synchronize()


def check_groups(ranks):
    halves = [ranks.dist.new_group(list(range(part, ranks.size, 2))) for part in range(2)]
    mine = halves[ranks.rank % 2]
    data = ranks.full(333, 1.0)
    ranks.dist.all_reduce(data, group=mine)
    ranks.equal(data, len(range(ranks.rank % 2, ranks.size, 2)), "sum in a group")
    ranks.dist.barrier()
    for half in halves:
        if half != ranks.dist.GroupMember.NON_GROUP_MEMBER:
            ranks.dist.destroy_process_group(half)


def small_network(ranks):
    nn = ranks.torch.nn
    ranks.torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                         nn.Linear(64, 10)).to(ranks.device)


def batch_of(ranks, step):
    torch = ranks.torch
    torch.manual_seed(100 + step)
    return (torch.randn(8 * ranks.size, 3, 16, 16).to(ranks.device),
            torch.randint(0, 10, (8 * ranks.size,)).to(ranks.device))


def check_ddp(ranks):
    """Five steps of DDP give the parameters of one process with the whole batch."""
    torch, me = ranks.torch, ranks.rank
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    alone, together = small_network(ranks), small_network(ranks)
    ddp = torch.nn.parallel.DistributedDataParallel(together, device_ids=[0], bucket_cap_mb=0.01)
    rates = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (alone, ddp)]
    loss_of = torch.nn.CrossEntropyLoss()
    for step in range(5):
        images, labels = batch_of(ranks, step)
        part = slice(8 * me, 8 * me + 8)
        for model, rate, share in ((alone, rates[0], slice(None)), (ddp, rates[1], part)):
            rate.zero_grad()
            loss_of(model(images[share]), labels[share]).backward()
            if model is ddp and step == 0:
                compare_gradients(ranks, alone, together)
            rate.step()
    return "largest difference " + largest_difference(ranks, alone, together)


def compare_gradients(ranks, alone, together):
    for (name, a), b in zip(alone.named_parameters(), together.parameters()):
        if not ranks.torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-5):
            raise AssertionError(f"gradient of {name} differs by "
                                 f"{(a.grad - b.grad).abs().max().item():.2e}")


def largest_difference(ranks, alone, together):
    most = max((a - b).abs().max().item()
               for a, b in zip(alone.parameters(), together.parameters()))
    assert most < 1e-3, f"parameters differ by {most:.2e}"
    return f"{most:.1e}"


def check_fsdp2(ranks):
    torch = ranks.torch
    from torch.distributed.fsdp import fully_shard
    torch.backends.cuda.matmul.allow_tf32 = False

    def network():
        torch.manual_seed(2)
        nn = torch.nn
        return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                             nn.Linear(64, 8)).to(ranks.device)

    alone, sharded = network(), network()
    mesh = torch.distributed.init_device_mesh("cuda", (ranks.size,))
    for layer in sharded:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    rates = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (alone, sharded)]
    for step in range(5):
        torch.manual_seed(200 + step)
        data = torch.randn(8 * ranks.size, 32).to(ranks.device)
        part = slice(8 * ranks.rank, 8 * ranks.rank + 8)
        for model, rate, share in zip((alone, sharded), rates, (slice(None), part)):
            rate.zero_grad()
            model(data[share]).square().mean().backward()
            rate.step()
    for (name, a), b in zip(alone.named_parameters(), sharded.parameters()):
        if not torch.allclose(a, b.full_tensor(), rtol=1e-3, atol=1e-5):
            raise AssertionError(f"{name} differs by {(a - b.full_tensor()).abs().max():.2e}")


def check_graph(ranks):
    """An all_reduce in a CUDA graph, replayed with other data."""
    torch = ranks.torch
    data = ranks.full(3001, 1.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ranks.dist.all_reduce(data)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        twice = data * 2
        ranks.dist.all_reduce(twice)
        total = twice + 1
    for turn in range(3):
        data.fill_(ranks.rank + turn + 1.0)
        graph.replay()
        torch.cuda.synchronize()
        expected = 1 + 2 * sum(rank + turn + 1 for rank in range(ranks.size))
        ranks.equal(total, expected, f"replay {turn}")
    ranks.dist.barrier()


def check_speed(ranks):
    torch, words = ranks.torch, []
    for count, turns in ((2, 20), (1 << 18, 10), (4 << 20, 3)):
        data = ranks.full(count, 1.0)
        ranks.dist.all_reduce(data)
        torch.cuda.synchronize()
        ranks.dist.barrier()
        began = time.perf_counter()
        for _ in range(turns):
            ranks.dist.all_reduce(data)
        torch.cuda.synchronize()
        words.append(f"{4 * count} B {1e6 * (time.perf_counter() - began) / turns:.0f} us")
    return "all_reduce " + ", ".join(words)


# Without it, no other check can succeed.
FIRST = "first all_reduce"
PROCESS_CHECKS = {"loaded": check_loaded, FIRST: check_first,
                  "all_reduce": check_all_reduce, "premul_sum": check_premul_sum,
                  "32 MiB": check_large, "broadcast and reduce": check_broadcast,
                  "gathers and all_to_all": check_gathers, "messages": check_messages,
                  "barrier": check_barrier, "streams": check_streams, "new_group": check_groups,
                  "DDP": check_ddp, "FSDP2": check_fsdp2, "CUDA graph": check_graph,
                  "speed": check_speed}
# With a device, torch makes communicators at once and splits them for groups.
BOUND_CHECKS = {name: PROCESS_CHECKS[name] for name in (FIRST, "new_group", "DDP")}

# Checks of ranks that are threads of one process ------------------------------------------------


def check_thread_groups(ranks):
    """A ProcessGroupNCCL for each thread: kernels of one process run at the same time."""
    torch, dist, size = ranks.torch, ranks.dist, ranks.size
    store = dist.HashStore()

    def job(rank):
        torch.cuda.set_device(0)
        with torch.cuda.stream(torch.cuda.Stream()):
            group = dist.ProcessGroupNCCL(dist.PrefixStore("threads", store), rank, size,
                                          dist.ProcessGroupNCCL.Options())
            for count in (1, 1000, 1 << 20):
                data = ranks.full(count, rank + 1.0)
                group.allreduce([data]).wait()
                torch.cuda.current_stream().synchronize()
                ranks.equal(data, size * (size + 1) // 2, f"all_reduce of {count}")
            whole, mine = ranks.full(size * 999, -1.0), ranks.full(999, float(rank))
            group._allgather_base(whole, mine).wait()
            torch.cuda.current_stream().synchronize()
            ranks.equal(whole, torch.arange(size).repeat_interleave(999), "all_gather")
            words = []
            for count in (2, 1 << 18, 16 << 20):
                data = ranks.full(count, 0.0)
                group.allreduce([data]).wait()
                torch.cuda.current_stream().synchronize()
                began = time.perf_counter()
                for _ in range(20):
                    work = group.allreduce([data])
                work.wait()
                torch.cuda.current_stream().synchronize()
                words.append(f"{4 * count} B {1e6 * (time.perf_counter() - began) / 20:.0f} us")
            return "all_reduce " + ", ".join(words)

    return in_threads(size, job)


def in_threads(size, job):
    """Runs job(rank) in threads. Returns the first result; raises the first error."""
    results, errors = [None] * size, []

    def run(rank):
        try:
            results[rank] = job(rank)
        except BaseException:
            errors.append(f"rank {rank}: {traceback.format_exc()}")

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not errors:
            thread.join(0.1)
    if errors:
        raise AssertionError(errors[0])
    return results[0]


def check_plain_calls(ranks):
    """ncclCommInitAll with all ranks on the first GPU, and groups of calls from one thread."""
    torch, size = ranks.torch, ranks.size
    nccl = ctypes.CDLL(str(ranks.library))
    nccl.ncclGetLastError.restype = ctypes.c_char_p

    def ok(result, what):
        assert result == 0, f"{what}: {result}, {nccl.ncclGetLastError(None)}"

    ranks.full(1, 0.0)
    comms = (ctypes.c_void_p * size)()
    ok(nccl.ncclCommInitAll(comms, size, (ctypes.c_int * size)(*[0] * size)), "ncclCommInitAll")
    streams = [torch.cuda.Stream() for _ in range(size)]
    for count in (1, 12345, 4 << 20):
        inputs = [ranks.full(count, rank + 1.0) for rank in range(size)]
        outputs = [ranks.full(count, 0.0) for _ in range(size)]
        torch.cuda.synchronize()
        ok(nccl.ncclGroupStart(), "ncclGroupStart")
        for rank in range(size):
            ok(nccl.ncclAllReduce(ctypes.c_void_p(inputs[rank].data_ptr()),
                                  ctypes.c_void_p(outputs[rank].data_ptr()),
                                  ctypes.c_size_t(count), 7, 0, ctypes.c_void_p(comms[rank]),
                                  ctypes.c_void_p(streams[rank].cuda_stream)), "ncclAllReduce")
        ok(nccl.ncclGroupEnd(), "ncclGroupEnd")
        torch.cuda.synchronize()
        for output in outputs:
            ranks.equal(output, size * (size + 1) // 2, f"ncclAllReduce of {count}")
    for comm in comms:
        ok(nccl.ncclCommDestroy(ctypes.c_void_p(comm)), "ncclCommDestroy")


THREAD_CHECKS = {"one thread, plain NCCL calls": check_plain_calls,
                 "threads, ProcessGroupNCCL": check_thread_groups}

KINDS = {"processes": PROCESS_CHECKS, "bound": BOUND_CHECKS, "threads": THREAD_CHECKS}

# One rank ---------------------------------------------------------------------------------------


def be_rank(kind, rank, size, library, names):
    """Does the checks with these names; prints one line at the begin and end of each."""
    faulthandler.register(signal.SIGUSR1)
    ranks = Ranks(rank, size, library)
    ranks.torch.cuda.set_device(0)
    joined = kind == "threads"
    for name in names:
        print(f"@begin {name}", flush=True)
        try:
            if not joined and name != "loaded":
                bound = {"device_id": ranks.device} if kind == "bound" else {}
                ranks.dist.init_process_group("nccl", rank=rank, world_size=size, **bound)
                joined = True
            text = KINDS[kind][name](ranks)
            ranks.torch.cuda.synchronize()
            print(f"@ok {text or ''}", flush=True)
        except BaseException:
            traceback.print_exc()
            print("@failed", flush=True)
            os._exit(1)
    if kind != "threads" and joined:
        print("@begin end", flush=True)
        ranks.dist.destroy_process_group()
        print("@ok", flush=True)
    sys.stdout.flush()


# All ranks --------------------------------------------------------------------------------------


class Job:
    """The processes of one start."""

    def __init__(self, given, kind, size, names, folder):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        processes = 1 if kind == "threads" else size
        environment = {**os.environ, "LD_PRELOAD": str(given.library), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(port), "LOCAL_RANK": "0",
                       "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "PYTHONUNBUFFERED": "1"}
        self.logs = [folder / f"{kind}-{size}-{names[0].replace(' ', '_')}-{rank}.log"
                     for rank in range(processes)]
        self.processes = []
        for rank, log in enumerate(self.logs):
            with open(log, "w", encoding="utf-8") as file:
                self.processes.append(subprocess.Popen(
                    [given.python, __file__, "--library", given.library, "--rank",
                     f"{kind},{rank},{size}", *names], env=environment, stdout=file,
                    stderr=subprocess.STDOUT))

    def marks(self):
        """The lines of each rank that begin with @."""
        return [[line for line in log.read_text(errors="replace").splitlines()
                 if line.startswith("@")] for log in self.logs]

    def ended(self):
        return any(process.poll() is not None for process in self.processes)

    def kill(self, show):
        if show:
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(10)

    def tails(self, lines):
        for rank, log in enumerate(self.logs):
            for line in log.read_text(errors="replace").splitlines()[-lines:]:
                print(f"    {rank}: {line[:300]}", flush=True)


def run_kind(given, kind, size, folder, until):
    """Returns the number of checks that failed. After FIRST has failed, the others do not run."""
    names, failed = list(KINDS[kind]), 0
    while names:
        job = Job(given, kind, size, names, folder)
        try:
            result = follow(job, names, kind, size, given.limit, until)
        finally:
            job.kill(False)
        if result == "ok":
            return failed
        failed += 1
        if result == "no time" or result == FIRST:
            return failed
    return failed


def follow(job, names, kind, size, limit, until):
    """Waits for the checks and removes those that are done from `names`. Returns "ok", "no time",
    or the check that failed."""
    began, done, text = time.monotonic(), 0, ""
    while True:
        marks = job.marks()
        least = min(sum(mark.startswith("@ok") for mark in rank) for rank in marks)
        if least > done:
            oks = [mark for mark in marks[0] if mark.startswith("@ok")]
            for k in range(done, min(least, done + len(names))):
                text = oks[k][4:].strip()
                print(f"ok: {kind}, {size} ranks: {names.pop(0)}, {time.monotonic() - began:.1f} s"
                      f"{': ' + text if text else ''}", flush=True)
            done, began = least, time.monotonic()
        exits = [process.poll() for process in job.processes]
        if not names and all(code is not None for code in exits):
            if any(exits):
                print(f"FAILED: {kind}, {size} ranks: end: {exits}", flush=True)
                job.tails(15)
                names.clear()
                return "failed"
            return "ok"
        # The first check includes the import of torch.
        late = time.monotonic() - began > (limit if done else 2 * limit)
        over = time.monotonic() > until
        broken = any(code not in (None, 0) for code in exits)
        if late or over or broken:
            if broken:
                time.sleep(0.5)  # the other ranks say why, too
            what = names.pop(0) if names else "end"
            why = "no time left" if over else "failed" if broken else f"hangs ({limit:g} s)"
            job.kill(not broken)
            print(f"FAILED: {kind}, {size} ranks: {what}: {why}", flush=True)
            job.tails(25 if job.logs and len(job.logs) < 4 else 15)
            return "no time" if over else what
        time.sleep(0.05)


def has_gpu(python):
    try:
        found = subprocess.run([python, "-c", "import torch; print(torch.cuda.is_available() and "
                                "torch.distributed.is_nccl_available())"], text=True,
                               capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.stdout.split()[-1:] == ["True"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--limit", type=float, default=20)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.library = given.library.resolve()
    if given.rank:
        kind, rank, size = given.rank.split(",")
        return be_rank(kind, int(rank), int(size), given.library, given.names)
    until, failed = time.monotonic() + given.seconds, 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that run_kind() kills the ranks
    if not has_gpu(given.python):
        print("SKIPPED: torch_gpu: no torch with a GPU and NCCL")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.logs or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in map(int, given.ranks.split(",")):
            for kind in ("threads", "processes", "bound"):
                failed += run_kind(given, kind, size, folder, until)
    print(f"{'FAILED' if failed else 'ok'}: torch_gpu: {failed} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
