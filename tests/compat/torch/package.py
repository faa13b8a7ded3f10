"""Tests the package: its version, how torch finds it, and the events in torch's profiler."""

import subprocess
import sys

import torch
import torch.distributed as dist

from harness import ranks

CALLS = {"all_reduce", "broadcast", "reduce", "all_gather", "barrier", "sparse_all_reduce", "send",
         "recv", "recvAnySource"}


def events(rank, size):
    activities = [torch.profiler.ProfilerActivity.CPU]
    for later in (False, True):
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            works = [dist.all_reduce(torch.ones(1 << 20), async_op=later),
                     dist.broadcast(torch.ones(3), 0, async_op=later),
                     dist.reduce(torch.ones(3), 0, async_op=later),
                     dist.all_gather([torch.ones(3) for _ in range(size)], torch.ones(3),
                                     async_op=later), dist.barrier(async_op=later),
                     dist.all_reduce(torch.eye(3).to_sparse(), async_op=later)]
            if rank == 0:
                dist.recv(torch.ones(3), 1)
                dist.recv(torch.ones(3))
            elif rank == 1:
                dist.send(torch.ones(3), 0)
                dist.send(torch.ones(3), 0)
            for work in works:
                if work:
                    work.wait()
        of = {event.name[len("rondo:"):]: event for event in profile.events()
              if event.name.startswith("rondo:")}
        expected = CALLS - ({"send"} if rank == 0 else {"recv", "recvAnySource"})
        assert set(of) == expected, (set(of), expected)
        assert of["all_reduce"].input_shapes == [[1 << 20]]
        assert of["all_reduce"].time_range.elapsed_us() > 10
    with torch.profiler.profile(activities=activities) as profile:
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_reduce(torch.ones(3))
            dist.all_reduce(torch.ones(3))
        manager.wait()
    names = [event.name for event in profile.events()]
    assert sum(name.startswith("rondo:all_reduce") for name in names) >= 1, names


def test_profiler():
    ranks(2, events)


def test_version():
    import rondo_torch
    assert rondo_torch.__version__.count(".") == 2
    from importlib.metadata import version
    assert version("rondo-torch") == rondo_torch.__version__


def test_torch_finds_it():
    program = """
import sys, torch
assert not any("rondo_torch._C" in name for name in sys.modules)
torch.distributed.init_process_group("rondo", store=torch.distributed.HashStore(), rank=0,
                                     world_size=1)
data = torch.ones(3)
torch.distributed.all_reduce(data)
assert torch.distributed.get_backend() == "rondo"
torch.distributed.destroy_process_group()
"""
    for before in ("", "import rondo_torch\n"):
        if before:
            program = program.replace("assert not any", "assert any")
        run = subprocess.run([sys.executable, "-c", before + program], capture_output=True,
                             text=True, timeout=300)
        assert run.returncode == 0, run.stderr
