"""Tests processes that end without destroy_process_group()."""

import multiprocessing
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torch.distributed as dist

from harness import join

JOIN = """
import datetime, sys, time
import numpy, rondo_torch, torch
import torch.distributed as dist
rank, size = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("rondo", store=dist.FileStore(sys.argv[3], size), rank=rank,
                        world_size=size, timeout=datetime.timedelta(seconds=60))
dist.all_reduce(torch.ones(1))
"""


def programs(size, text):
    """Runs the program JOIN + text as each rank. Returns the ranks' exit statuses, and what they
    wrote to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = [subprocess.Popen(
            [sys.executable, "-c", JOIN + text, str(rank), str(size), folder + "/store"],
            stderr=subprocess.PIPE, text=True) for rank in range(size)]
        try:
            errors = [job.communicate(timeout=120)[1] for job in jobs]
            return [job.returncode for job in jobs], errors
        finally:
            for job in jobs:
                job.kill()


LEAVES = """
time.sleep(4 * rank)
dist.all_reduce(torch.from_numpy(numpy.ones(1 << 20)), async_op=rank == 0)
"""


def test_a_process_that_ends_completes_its_calls():
    """Rank 0 ends while the other has not made the call yet."""
    statuses, errors = programs(2, LEAVES)
    assert statuses == [0, 0], (statuses, errors)


RAISES = """
group = dist.new_group()
if rank == 1:
    pending = {call}
    problem = ValueError("this batch has no labels")
    getattr(problem, "add_note", print)("a note")
    raise problem
dist.all_reduce(torch.ones(1000))
"""
PENDING = ["dist.irecv(torch.ones(1000), 0)",
           "dist.all_reduce(torch.ones(1000), group=group, async_op=True)"]
CAUSE = "rank 1 aborted: its program raised ValueError: this batch has no labels"


def test_an_exception_that_ends_a_process_is_an_error_of_the_others_at_once():
    """Rank 1 raises with a call in flight that no other rank makes; the others wait in another."""
    for size, call in ((2, PENDING[0]), (2, PENDING[1]), (3, PENDING[1])):
        statuses, errors = programs(size, RAISES.format(call=call))
        assert statuses == [1] * size, (statuses, errors)
        assert "ValueError: this batch has no labels" in errors[1], errors[1]
        for rank in set(range(size)) - {1}:
            words = f"DistBackendError: rondo: all_reduce on rank {rank} of {size}: {CAUSE}"
            assert words in errors[rank], errors[rank]


def child(rank, size, path, pipe):
    join(rank, size, path)
    if rank == 1:
        pending = dist.irecv(torch.ones(1000), 0)
        try:
            raise ValueError("this batch has no labels")
        except ValueError:
            sys.exit(3)  # torch.multiprocessing.spawn() does this, too
    try:
        dist.all_reduce(torch.ones(1000))
    except dist.DistBackendError as error:
        pipe.send(str(error))


def test_an_exception_that_ends_a_process_of_multiprocessing_is_an_error_of_the_others():
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        with tempfile.TemporaryDirectory() as folder:
            jobs = [context.Process(target=child, args=(rank, 2, folder + "/store", theirs))
                    for rank in range(2)]
            for job in jobs:
                job.start()
            try:
                assert ours.poll(120), "rank 0 got no error"
                error = ours.recv()
                for job in jobs:
                    job.join(60)
            finally:
                for job in jobs:
                    job.kill()
        assert error == f"rondo: all_reduce on rank 0 of 2: {CAUSE}", error
        assert [job.exitcode for job in jobs] == [0, 3], [job.exitcode for job in jobs]


def leaving(rank, size, path, pipe):
    join(rank, size, path)
    time.sleep(4 * rank)
    dist.all_reduce(torch.from_numpy(numpy.ones(1 << 20)), async_op=rank == 0)
    worker = multiprocessing.get_context("fork").Process(target=print)  # like a loader's worker
    worker.start()
    worker.join()
    pipe.send(worker.exitcode)


def test_a_process_of_multiprocessing_that_ends_completes_its_calls():
    """Also if it was started while an exception was handled, and has had children of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        jobs = [context.Process(target=leaving, args=(rank, 2, folder + "/store", theirs))
                for rank in range(2)]
        try:
            raise ValueError("handled in the parent")
        except ValueError:
            for job in jobs:
                job.start()
        try:
            for job in jobs:
                job.join(120)
        finally:
            for job in jobs:
                job.kill()
    assert [job.exitcode for job in jobs] == [0, 0], [job.exitcode for job in jobs]
    assert [ours.recv(), ours.recv()] == [0, 0]
