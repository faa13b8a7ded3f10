"""Tests handles of calls: after their group has ended, after a wait with a timeout, and in a
coalescing region that has calls of several groups, or a call that is refused."""

import datetime
import time

import torch
import torch.distributed as dist

from harness import raises, ranks, same

Broken = dist.DistBackendError
CPU = torch.device("cpu")


def group(timeout=60.0):
    return dist.new_group(timeout=datetime.timedelta(seconds=timeout))


def outlives(rank, size, waited):
    """Rank 0 leaves a group and keeps the handle of a call that has ended; the others notice."""
    part, store = group(), dist.distributed_c10d._get_default_store()
    data = torch.full((1000,), float(rank))
    work = dist.all_reduce(data, group=part, async_op=True)
    if waited:
        work.wait()
    expected = torch.full((1000,), float(sum(range(size))))
    if rank == 0:
        dist.destroy_process_group(part)
        store.set("left", "")
    else:
        store.wait(["left"])
        began = time.monotonic()
        with raises(Broken, "all_reduce", "rank 0"):
            dist.all_reduce(torch.ones(10), group=part)
        assert time.monotonic() - began < 20, "rank 0 was still in the group"
    work.wait()
    assert work.is_completed() and work.is_success()
    same(work.get_future().wait()[0], expected)
    same(work.result()[0], expected)
    dist.barrier()


def completes(rank, size):
    """destroy_process_group() waits for a call in flight, although the program has its handle."""
    part = group()
    data = torch.ones(1000)
    if rank == 1:
        time.sleep(1)
    work = dist.all_reduce(data, group=part, async_op=True)
    if rank == 0:
        dist.destroy_process_group(part)
    else:
        work.wait()
    same(data, torch.full((1000,), float(size)))
    work.wait()
    dist.barrier()


def incomplete(rank, size, call):
    """A call that the others do not make ends with an error when its rank leaves the group."""
    part = group(2)
    dist.barrier()
    if rank == 0:
        work = call(part)
        began = time.monotonic()
        dist.destroy_process_group(part)
        assert work.is_completed(), "the call did not end with its group"
        assert time.monotonic() - began < 20
        with raises(Broken, "rondo: "):
            work.wait()
        assert work.exception() is not None
        with raises(RuntimeError):
            work.get_future().wait()
    dist.barrier()


def late_success(rank, size, delay):
    """Rank 1 makes the call just after rank 0's limit. If the call succeeds nevertheless, the group
    has its own timeout again."""
    part, limit = group(), 0.03
    dist.barrier(group=part)
    dist.barrier()
    began = time.monotonic()
    try:
        if rank == 0:
            work = dist.all_reduce(torch.ones(10), group=part, async_op=True)
            work.wait(datetime.timedelta(seconds=limit))
        else:
            time.sleep(limit + delay)
            dist.all_reduce(torch.ones(10), group=part)
        ended = torch.ones(1)
    except Broken:
        ended = torch.zeros(1)
    late = time.monotonic() - began > limit
    dist.all_reduce(ended, dist.ReduceOp.MIN)
    if not ended:
        return False
    time.sleep(0.3 * rank)
    dist.all_reduce(torch.ones(10), group=part)
    return late


def of_another_group(rank, size, later):
    """Calls of a group in a region of another group, whose tensors are not contiguous."""
    first, second = group(), group()
    for turn in range(20):
        data, other = torch.ones(1000), torch.full((300, 300), float(rank + turn)).T[::2]
        with dist._coalescing_manager(first, CPU, async_ops=True) as manager:
            dist.broadcast(data, 0, group=first)
            if later == "kept":
                work = dist.broadcast(other, 0, group=second, async_op=True)
                time.sleep(0.01)
                assert not work.is_completed()
            elif later == "dropped":
                dist.broadcast(other, 0, group=second, async_op=True)
                time.sleep(0.01)
            else:
                dist.broadcast(other, 0, group=second)
        manager.wait()
        if later == "kept":
            work.wait()
        same(other, torch.full((150, 300), float(turn)))


def nested(rank, size):
    """A region of one group in a region of another starts with the outer one."""
    first, second = group(), group()
    outer, inner, after = (torch.full(shape, float(rank)) for shape in ((10,), (30, 10), (10,)))
    inner = inner.T
    with dist._coalescing_manager(first, CPU, async_ops=True) as outer_manager:
        dist.broadcast(outer, size - 1, group=first)
        with dist._coalescing_manager(second, CPU, async_ops=True) as inner_manager:
            dist.broadcast(inner, size - 1, group=second)
        assert not inner_manager.works[0].is_completed()
        dist.broadcast(after, size - 1, group=second)
    inner_manager.wait()
    outer_manager.wait()
    for tensor in (outer, inner, after):
        same(tensor, torch.full(tensor.shape, float(size - 1)))


def tagged(rank, size):
    """The handle of a tagged send in a region is complete only when the message has been sent."""
    count = 5_000_000
    with dist._coalescing_manager(device=CPU, async_ops=True) as manager:
        if rank == 0:
            work = dist.isend(torch.ones(count), 1, tag=3)
    if rank == 0:
        assert not work.is_completed(), "the other rank has not received it"
    else:
        time.sleep(0.5)
        got = torch.zeros(count)
        dist.recv(got, 0, tag=3)
        same(got, torch.ones(count))
    manager.wait()


def abandoned(rank, size):
    """A group ends in a region that an exception has left open."""
    part = group()
    try:
        with dist._coalescing_manager(part, CPU):
            work = part._get_backend(CPU).allreduce([torch.ones(10)], dist.AllreduceOptions())
            raise KeyError("in the region")
    except KeyError:
        pass
    dist.distributed_c10d._world.pg_coalesce_state.pop(part, None)
    dist.destroy_process_group(part)
    with raises(Broken, "shut down"):
        work.wait()
    data = torch.ones(10)
    dist.all_reduce(data)
    same(data, torch.full((10,), float(size)))


def refused(rank, size):
    """A program catches the exception of one operation of a batch, and goes on. None of the batch's
    operations was made, not even a receive that had begun to wait for its message."""
    part, right, left = group(), (rank + 1) % size, (rank - 1) % size

    def exchange(value, tag):
        got = torch.zeros(5)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((5,), value), right, tag=tag),
            dist.P2POp(dist.irecv, got, left, tag=tag)])
        for work in works:
            work.wait()
        same(got, torch.full((5,), value))

    for tag in (0, 5):
        wrong = torch.empty(4, dtype=torch.uint4)
        early = torch.zeros(5)
        with raises(ValueError, "send", "whole bytes"):
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, early, left, tag=tag),
                                    dist.P2POp(dist.isend, torch.ones(5), right, tag=tag),
                                    dist.P2POp(dist.isend, wrong, right, tag=tag)])
        for among in (part, None):
            data = torch.full((10,), float(rank))
            dist.broadcast(data, size - 1, group=among)
            same(data, torch.full((10,), size - 1.0))
        dist.barrier()  # a rank's receive could get what another rank sends after its refused batch
        exchange(2.0, tag)
        same(early, torch.zeros(5))


def test_the_program_goes_on_after_a_refused_batch():
    for size in (2, 3):
        ranks(size, refused)


def test_a_rank_leaves_although_the_program_has_a_handle():
    for waited in (True, False):
        ranks(2, outlives, waited)


def test_a_group_that_ends_completes_its_calls():
    ranks(2, completes)


def test_a_group_that_ends_ends_calls_that_cannot_complete():
    for call in (lambda part: dist.all_reduce(torch.ones(10), group=part, async_op=True),
                 lambda part: dist.irecv(torch.ones(10), 1, group=part),
                 lambda part: dist.irecv(torch.ones(10), 1, group=part, tag=3),
                 lambda part: dist.irecv(torch.ones(10), group=part)):
        ranks(2, incomplete, call)


def test_a_wait_that_succeeds_late_restores_the_timeout():
    late = 0
    for delay in range(0, 20, 2):
        late += all(ranks(2, late_success, delay / 10_000))
    print(f"  {late} of 10 waits succeeded late")


def test_coalescing_with_calls_of_another_group():
    for later in ("kept", "dropped", "no"):
        ranks(3, of_another_group, later)


def test_nested_coalescing():
    ranks(3, nested)


def test_a_tagged_send_in_a_region():
    ranks(2, tagged)


def test_a_group_ends_in_a_region():
    ranks(2, abandoned)
