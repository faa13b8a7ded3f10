"""Tests timeouts, deaths and mismatches: every rank gets an exception with the cause and place."""

import datetime
import functools
import re
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from harness import CONTEXT, die, join, raises, ranks

Broken = dist.DistBackendError


def leave():
    """After a failure a process can destroy its group quickly."""
    began = time.monotonic()
    dist.destroy_process_group()
    return time.monotonic() - began


def survivor(rank, size, later):
    data = torch.ones(100_000)
    dist.all_reduce(data)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"done {rank}", "")
    if rank == 1:
        # Without this it would die during the others' first call.
        store.wait([f"done {other}" for other in range(size)])
        die()
    began = time.monotonic()
    with raises(Broken, "all_reduce", f"on rank {rank} of {size}", "rank 1 died"):
        for _ in range(100_000):
            if later:
                dist.all_reduce(data, async_op=True).get_future().wait()
            else:
                dist.all_reduce(data)
    with raises(Broken, "barrier", "rank 1 died"):
        dist.barrier()
    return time.monotonic() - began, leave()


def shrinks(rank, size, abort):
    """The living ranks go on without rank 1, also with messages, and in a group of their own."""
    from torch.distributed.distributed_c10d import SHRINK_ABORT, SHRINK_DEFAULT, shrink_group
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    pending = dist.all_reduce(torch.ones(3), async_op=True) if abort and rank == 0 else None
    store.set(f"ready {rank}", "")
    store.wait([f"ready {other}" for other in range(size)])
    if rank == 1:
        die()
    if not abort:
        with raises(Broken, "rank 1"):
            dist.all_reduce(torch.ones(3))
    shrink_group([1], shrink_flags=SHRINK_ABORT if abort else SHRINK_DEFAULT)
    if pending:
        with raises(Broken):
            pending.wait()
    new_rank = rank - (rank > 1)
    assert (dist.get_world_size(), dist.get_backend()) == (size - 1, "rondo")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert (backend.rank(), backend.size()) == (new_rank, size - 1)
    data = torch.full((1000,), float(new_rank))
    dist.all_reduce(data)
    assert (data == sum(range(size - 1))).all()
    gathered = [torch.zeros(1) for _ in range(size - 1)]
    dist.all_gather(gathered, torch.full((1,), float(rank)))
    assert [int(one) for one in gathered] == [one for one in range(size) if one != 1]
    # In the default group, torch's functions for messages take the new numbers of ranks.
    got, after, before = torch.zeros(1), (new_rank + 1) % (size - 1), (new_rank - 1) % (size - 1)
    request = dist.isend(torch.full((1,), float(new_rank)), after, tag=3)
    dist.recv(got, before, tag=3)
    request.wait()
    assert got == before
    return new_rank


def future_fails(rank, size):
    if rank == 1:
        time.sleep(0.3)
        die()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    with raises(RuntimeError, "rank 1"):
        work.get_future().wait()
    assert work.is_completed()
    with raises(Broken, "all_reduce"):
        work.wait()
    leave()


def late(rank, size, how):
    """Rank 1 does not make the call; the other ranks' errors say so."""
    dist.barrier()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    short = datetime.timedelta(milliseconds=400)
    if rank == 1:
        time.sleep(4)
        with raises(Broken, "barrier"):
            dist.barrier()
        return leave()
    began = time.monotonic()
    with raises(Broken, "rank 1"):
        if how == "group":
            backend._set_default_timeout(short)
            dist.all_reduce(torch.ones(10))
        elif how == "wait":
            dist.all_reduce(torch.ones(10), async_op=True).wait(short)
        elif how == "call":
            options = dist.AllreduceOptions()
            options.timeout = short
            backend.allreduce([torch.ones(10)], options).wait()
        else:
            dist.group.WORLD.monitored_barrier(timeout=short)
    assert 0.3 < time.monotonic() - began < 3.9, "it did not end at its own deadline"
    return leave()


def mismatched(rank, size):
    with raises(Broken, "all_reduce", "rank", "AllReduce", "10", "11"):
        dist.all_reduce(torch.ones(10 + rank % 2))
    return leave()


def mismatch_of(what):
    """A rank that need not wait returns, and learns of the death within a second."""
    def body(rank, size):
        dist.barrier()
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        if what == "broadcast":
            call = functools.partial(dist.broadcast, torch.ones(10 + (rank > 0)), 0)
        elif rank == 0:
            call = functools.partial(dist.send, torch.ones(10), 1)
        else:
            call = functools.partial(dist.recv, torch.ones(11), 0)
        began = time.monotonic()
        if rank == 0:
            call()
            # torch 2.9 does not show it to Python
            while hasattr(backend, "get_error") and backend.get_error() == ErrorType.SUCCESS:
                assert time.monotonic() - began < 10, "it never heard of it"
                time.sleep(0.01)
        else:
            with raises(Broken, what if what == "broadcast" else "recv", "rank", "10", "11"):
                call()
        waited = time.monotonic() - began
        with raises(Broken, "barrier", "rank", "10", "11"):
            dist.barrier()
        leave()
        return waited
    return body


def first_words(rank, size):
    """The text begins with the event and its ranks; details follow."""
    dist.barrier()
    part = dist.new_group(list(range(size)))
    named = dist.new_group(list(range(size)))
    part._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=1))
    if rank == 0:
        for expected, call in (
                (r"rondo: all_gather on rank 0 of 3: AllGatherv #\d+ \(\d+ float\) timed out after "
                 r"[\d.]+ m?s: ranks 1 and 2 did not call it; rank 0: lane ",
                 lambda: dist.all_gather([torch.ones(2) for _ in range(size)], torch.ones(2),
                                         group=part)),
                (r"rondo: monitored_barrier on rank 0 of 3: Rank 0 timed out in "
                 r"monitoredBarrier: Barrier #\d+ timed out after "
                 r"[\d.]+ m?s: ranks 1 and 2 did not call it",
                 lambda: named.monitored_barrier(timeout=datetime.timedelta(0)))):
            try:
                call()
                raise AssertionError("no error")
            except Broken as error:
                assert re.match(expected, str(error)), str(error)
    dist.barrier()


def monitored(rank, size, absent, every, words):
    """The error contains Gloo's text, which programs match."""
    dist.barrier()
    if rank in absent:
        time.sleep(3)
    else:
        if rank > 0:
            words = (f"Rank {rank} successfully reached monitoredBarrier, but received errors "
                     "while waiting for send/recv from rank 0")
        with raises(Broken, f"rondo: monitored_barrier on rank {rank} of {size}: {words}"):
            dist.group.WORLD.monitored_barrier(datetime.timedelta(milliseconds=400), every)
    leave()


def aborted(rank, size):
    dist.barrier()
    if rank == 0:
        time.sleep(0.3)
        dist.distributed_c10d._abort_process_group()
        return None
    with raises(Broken, "rank 0 aborted"):
        dist.all_reduce(torch.ones(10))
    return leave()


def in_a_part(rank, size):
    """The text also names the culprit's rank in the job."""
    part = dist.new_group([2, 1])
    if rank == 2:
        die()
    if rank == 1:
        with raises(Broken, "of this group is rank 2 of the job"):
            for _ in range(100_000):
                dist.all_reduce(torch.ones(10), group=part)


def alone(path, pipe):
    try:
        with raises(Broken, "init", "rank 1"):
            join(0, 2, path + "0", timeout=1.0)
        with raises(Broken, "init", "rank 0 did not come"):
            join(1, 2, path + "1", timeout=1.0)
        with raises(ValueError, "rank 5 is not one of 2 ranks"):
            join(5, 2, path + "2", timeout=1.0)
        pipe.send("ok")
    except BaseException as error:
        pipe.send(str(error))


def test_shrink_group():
    if not hasattr(dist, "shrink_group"):
        return  # older than torch 2.10
    for abort in (False, True):
        assert ranks(4, shrinks, abort, dying=(1,)) == [0, None, 1, 2]


def test_death_is_heard_everywhere():
    for size in (2, 3, 4):
        for later in (False, True):
            times = ranks(size, survivor, later, dying=[1])
            alive = [one for one in times if one]
            print(f"  {size} ranks: raised after {max(t for t, _ in alive):.2f} s, "
                  f"left within {max(t for _, t in alive):.2f} s")


def test_futures_fail():
    ranks(2, future_fails, dying=[1])


def test_timeouts():
    for how in ("group", "wait", "call", "barrier"):
        ranks(2, late, how)
        ranks(3, late, how)


def test_mismatch():
    ranks(3, mismatched)


def test_mismatch_of_what_the_sender_need_not_wait_for():
    for what in ("broadcast", "message"):
        print(f"  {what}: rank 0 heard of it after {ranks(2, mismatch_of(what))[0]:.2f} s")


def test_first_words():
    ranks(3, first_words)


def test_words_of_monitored_barrier():
    failed = "failed to pass monitoredBarrier in 400 ms"
    for size, absent, every, words in ((2, [1], False, f"Rank 1 {failed}: Barrier #"),
                                       (4, [2, 3], False, f"Rank 2 {failed}: Barrier #"),
                                       (4, [1, 3], True, f"Ranks 1, 3 {failed}: Barrier #"),
                                       (4, [1, 2, 3], True, f"Ranks 1, 2, 3 {failed}: Barrier #"),
                                       (2, [1], True, f"Ranks 1 {failed}: Barrier #")):
        ranks(size, monitored, absent, every, words)


def test_abort():
    ranks(3, aborted)


def test_ranks_of_a_part():
    ranks(3, in_a_part, dying=[2])


def test_missing_ranks_are_listed():
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=alone, args=(folder + "/store", theirs))
        process.start()
        assert ours.poll(30)
        assert (said := ours.recv()) == "ok", said
        process.join()


def threads(rank, size):
    """Uses each group in its own thread."""
    groups = [dist.new_group(list(range(size))) for _ in range(3)]
    sums = [torch.ones(1000) for _ in groups]

    def loop(i):
        for _ in range(100):
            dist.all_reduce(sums[i], dist.ReduceOp.AVG, group=groups[i])

    running = [threading.Thread(target=loop, args=(i,)) for i in range(len(groups))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for total in sums:
        assert torch.equal(total, torch.ones(1000))


def test_threads():
    ranks(2, threads)
