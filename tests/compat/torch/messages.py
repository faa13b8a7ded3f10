"""Tests messages between two ranks: tags, and receives from any rank."""

import datetime
import time

import torch
import torch.distributed as dist

from harness import raises, ranks, same

LARGE = 1 << 20  # elements: more than a channel can hold


def filled(value, count=5):
    return torch.full((count,), float(value))


def tags_in_any_order(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    tags = [7, 0, 3, 0, 2**31 - 1, 3]
    for count in (5, LARGE // 4):
        sends = [dist.isend(filled(100 * rank + i, count), right, tag=tag)
                 for i, tag in enumerate(tags)]
        outs = {i: torch.zeros(count) for i in range(len(tags))}
        # Tags are received in another order than sent; messages of one tag in their order.
        for i in (4, 2, 5, 1, 0, 3):
            if i % 2:
                assert dist.recv(outs[i], left, tag=tags[i]) == left
            else:
                dist.irecv(outs[i], left, tag=tags[i]).wait()
        for work in sends:
            work.wait()
        for i, out in outs.items():
            same(out, filled(100 * left + i, count))
    # Using a new tag for each message does not use up memory.
    works = [dist.isend(filled(i), right, tag=1000 + i) for i in range(300)]
    works += [dist.irecv(torch.zeros(5), left, tag=1000 + i) for i in reversed(range(300))]
    for work in works:
        work.wait()
    for i, work in zip(reversed(range(300)), works[300:]):
        same(work.result()[0], filled(i))

    # Sends and receives columns.
    out = torch.zeros(5, 2)
    work = dist.irecv(out[:, 1], left, tag=9)
    dist.send(torch.arange(10.0).reshape(5, 2)[:, 0], right, tag=9)
    work.wait()
    same(out, torch.stack([torch.zeros(5), torch.arange(0.0, 10.0, 2)], dim=1))

    operations = [dist.P2POp(dist.isend, filled(rank), right, tag=5),
                  dist.P2POp(dist.irecv, torch.zeros(5), left, tag=5)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(operations[1].tensor, filled(left))


def from_any_rank(rank, size):
    for tag in (0, 4):
        for count in (5, LARGE):
            if rank == 0:
                seen = set()
                for _ in range(size - 1):
                    out = torch.zeros(count)
                    sender = dist.recv(out, tag=tag)
                    same(out, filled(sender, count))
                    seen.add(sender)
                assert seen == set(range(1, size))
            else:
                dist.send(filled(rank, count), 0, tag=tag)
            dist.barrier()
    # A receive from one rank that is called after a receive from any rank gets the later message.
    if rank == 0:
        outs = [torch.zeros(5), torch.zeros(5), torch.zeros(5)]
        works = [dist.irecv(outs[0]), dist.irecv(outs[1], 1), dist.irecv(outs[2], 1)]
        dist.barrier()
        for i, work in enumerate(works):
            work.wait()
            same(outs[i], filled(i))
    else:
        dist.barrier()
        if rank == 1:
            for i in range(3):
                dist.send(filled(i), 0)


def moves_beside_collectives(rank, size):
    """A receive makes progress while its rank waits for the sender in another call."""
    for tag in (0, 6):
        for source in (None, 1):
            data = filled(rank, 3)
            if rank == 0:
                out = torch.zeros(LARGE)
                work = dist.irecv(out, source, tag=tag)
                dist.all_reduce(data)
                work.wait()
                same(out, filled(1, LARGE))
            else:
                if rank == 1:
                    dist.send(filled(1, LARGE), 0, tag=tag)
                dist.all_reduce(data)
            same(data, filled(sum(range(size)), 3))


def dropped(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    kept = torch.zeros(2, 5)
    for i in range(10):
        dist.isend(filled(i), right, tag=1 + i)
        dist.irecv(torch.zeros(5), left, tag=1 + i)
    future = dist.irecv(kept[1], left, tag=50).get_future()
    dist.isend(filled(rank), right, tag=50)
    same(future.wait()[0], filled(left))
    dist.barrier()


def nothing_comes(rank, size):
    began = time.monotonic()
    with raises(dist.DistBackendError, "recv", "timed out after 3 s",
                "no matching message arrived"):
        if rank == 0:
            dist.recv(torch.zeros(5))
        else:
            dist.recv(torch.zeros(5), 0, tag=3)
    assert time.monotonic() - began < 30
    with raises(dist.DistBackendError, "timed out"):
        dist.all_reduce(torch.zeros(5))
    return True


def limit_of_one_wait(rank, size):
    work = dist.irecv(torch.zeros(5), 1 - rank, tag=3)
    assert not work.is_completed()
    began = time.monotonic()
    with raises(dist.DistBackendError, "timed out"):
        work.wait(datetime.timedelta(seconds=1))
    assert time.monotonic() - began < 30
    return True


def other_size(rank, size):
    with raises(dist.DistBackendError, "rank 0 sent 5 elements of float", "6 elements"):
        if rank == 0:
            dist.send(filled(0), 1, tag=3)
            dist.recv(torch.zeros(6), 1, tag=3)
        else:
            dist.recv(torch.zeros(6), 0, tag=3)
    return True


def other_size_without_tag(rank, size, source):
    """The thread that matches messages has started a receive when its error comes. The group is
    then shut down, which waits for that thread."""
    with raises(dist.DistBackendError):
        if rank == 0:
            dist.recv(torch.zeros(6), source)
        else:
            dist.send(torch.ones(5), 0)
            dist.barrier()
    return True


def named_after_any(rank, size):
    """A receive from one rank waits behind one from any rank, and keeps its order to a later one
    when the first has ended."""
    if rank == 0:
        anyone, first, second = torch.zeros(5), torch.zeros(5), torch.zeros(5)
        from_any, earlier = dist.irecv(anyone), dist.irecv(first, 1)
        from_any.wait()
        same(anyone, filled(9))
        later = dist.irecv(second, 1)
        dist.barrier()
        earlier.wait()
        later.wait()
        same(first, filled(1))
        same(second, filled(2))
        return
    if rank == 2:
        dist.send(filled(9), 0)
    dist.barrier()
    if rank == 1:
        dist.send(filled(1), 0)
        dist.send(filled(2), 0)


def one_leaves(rank, size):
    """A rank that sends nothing may leave while others receive from any rank."""
    out = torch.zeros(5)
    if rank == 0:
        assert dist.recv(out, tag=2) == 1
        assert dist.recv(out) == 1
    elif rank == 1:
        time.sleep(1)
        dist.send(filled(1), 0, tag=2)
        dist.send(filled(1), 0)


def test_tags():
    for size in (2, 3):
        ranks(size, tags_in_any_order)
        ranks(size, dropped)


def test_any_rank():
    for size in (2, 3, 4):
        ranks(size, from_any_rank)
    ranks(3, moves_beside_collectives)
    ranks(3, one_leaves)
    ranks(3, named_after_any)


def test_over_tcp():
    import rondo_torch
    options = rondo_torch.Options()
    options.transports = "tcp"
    for body in (tags_in_any_order, from_any_rank, moves_beside_collectives, one_leaves):
        ranks(3, body, pg_options=options)


def test_time():
    assert ranks(2, nothing_comes, timeout=3.0) == [True, True]
    assert ranks(2, limit_of_one_wait) == [True, True]


def test_other_size():
    assert ranks(2, other_size) == [True, True]
    assert ranks(2, other_size_without_tag, None) == [True, True]
