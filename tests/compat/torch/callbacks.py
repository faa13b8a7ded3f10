"""Tests callbacks of futures that wait for other calls of the same group, which works with Gloo."""

import datetime
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

from harness import raises, ranks, same


def reduced(value):
    return dist.all_reduce(torch.full((3,), float(value)), async_op=True)


def first(future):
    return future.wait()[0]


def late(rank):
    """Delays rank 1, so that rank 0's calls have not ended when it takes their futures."""
    if rank == 1:
        time.sleep(0.3)


def waits(rank, size, how):
    """The callback of one call waits for another."""
    message, threads, after = torch.zeros(3), [], []
    received = dist.irecv(message, 1).get_future() if how == "message" and rank == 0 else None

    def callback(future):
        threads.append(threading.get_ident())
        late(rank)
        if how == "future":
            return first(reduced(2).get_future())
        if how == "work":
            work = reduced(2)
            work.wait()
            return work.result()[0]
        if how == "plain":
            data = torch.full((3,), 2.0)
            dist.all_reduce(data)
            return data
        if how == "nested":
            deeper = reduced(2).get_future().then(
                lambda one: reduced(5).get_future().then(
                    lambda two: two.wait()[0] + one.wait()[0]).wait())
            return deeper.wait()
        # The callback waits for another call's future, taken before or after its own.
        if how == "message":
            if rank == 1:
                dist.send(torch.full((3,), 2.0 * size), 0)
            return received.wait()[0] if rank == 0 else torch.full((3,), 2.0 * size)
        while rank == 0 and not after:
            time.sleep(0.01)
        return first(after[0] if after else later.get_future())

    late(rank)
    work = reduced(1)
    later = reduced(2) if how == "later" else None
    future = work.get_future().then(callback)
    if later and rank == 0:
        after.append(later.get_future())
    result = future.wait()
    if rank == 0:
        assert threads[0] != threading.get_ident(), "rank 1 was not late: this proves nothing"
    same(result, torch.full((3,), (7.0 if how == "nested" else 2.0) * size))


def in_vain(rank, size):
    """Rank 1 does not make the call that rank 0's callback waits for."""
    def callback(future):
        return first(reduced(2).get_future())

    late(rank)
    work = reduced(1)
    if rank == 1:
        work.wait()
        time.sleep(2.5)
        return None
    dist.group.WORLD._get_backend(torch.device("cpu"))._set_default_timeout(
        datetime.timedelta(seconds=1))
    began = time.monotonic()
    with raises(RuntimeError, "timed out", "rank 1 did not call it"):
        work.get_future().then(callback).wait()
    return time.monotonic() - began


def unordered(rank, size):
    """A future whose call is still in flight does not delay other futures."""
    buffer = torch.zeros(1)
    if rank == 0:
        received = dist.irecv(buffer, 1).get_future()
        # The program drops this call's handle.
        dist.irecv(torch.zeros(1), 1)
    same(first(reduced(1).get_future()), torch.full((3,), float(size)))
    dist.barrier()
    if rank == 1:
        dist.send(torch.ones(1), 0)
        dist.send(torch.ones(1), 0)
    else:
        received.wait()
        same(buffer, torch.ones(1))


def in_order(rank, size):
    """Callbacks that do not wait run one after the other, in the order of their calls."""
    seen, running = [], []

    def note(number):
        def callback(future):
            running.append(number)
            time.sleep(0.001)
            assert running == [number], "two callbacks at the same time"
            running.clear()
            seen.append(number)
        return callback

    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
    works = [reduced(i) for i in range(20)]
    for future in [work.get_future().then(note(i)) for i, work in enumerate(works)]:
        future.wait()
    assert seen == list(range(20)), seen


def leaves(rank, size):
    """A callback may destroy its own group."""
    part = dist.new_group(list(range(size)))
    late(rank)
    work = dist.all_reduce(torch.ones(3), group=part, async_op=True)
    work.get_future().then(lambda future: dist.destroy_process_group(part)).wait()
    dist.barrier()


def power_sgd(rank, size):
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(40, 40))
    model.register_comm_hook(powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    torch.manual_seed(rank)
    for _ in range(4):
        late(rank)
        model(torch.randn(4, 40)).sum().backward()
    parts = [torch.empty(40, 40) for _ in range(size)]
    dist.all_gather(parts, model.module.weight.grad)
    for part in parts:
        assert torch.equal(part, parts[0])


def test_callbacks_wait():
    for how in ("future", "work", "plain", "nested", "message", "later"):
        for size in (2, 3):
            ranks(size, waits, how, timeout=20)


def test_a_callback_that_waits_in_vain_ends_at_the_deadline():
    waited = ranks(2, in_vain)[0]
    assert 0.9 < waited < 20, waited


def test_futures_end_in_any_order():
    ranks(2, unordered, timeout=20)


def test_callbacks_run_in_order():
    ranks(2, in_order)


def test_a_callback_leaves_the_group():
    ranks(2, leaves)


def test_power_sgd():
    import torch._dynamo  # noqa: F401: DDP does, which takes each rank seconds
    for size in (2, 3):
        ranks(size, power_sgd, timeout=20)
