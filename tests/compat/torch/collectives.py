"""Tests every collective x element type x operator x number of ranks, blocking and not."""

import functools

import torch
import torch.distributed as dist

from harness import ranks, same

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NARROW = [torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32,
            torch.int64, torch.uint64]
MOVED = FLOATS + NARROW + INTEGERS + [torch.bool, torch.complex64, torch.complex128]
COUNTS = [0, 1, 7, 1000, 70001]
Op = dist.ReduceOp


def given(rank, count, dtype, salt=0):
    """A rank's elements, small enough that sums and products are exact in all types."""
    return ((torch.arange(count) + rank + salt) % 2 + (0 if dtype == torch.bool else 1)).to(dtype)


def folded(function, parts):
    return functools.reduce(function, [part.to(torch.int64) for part in parts])


def average(parts):
    total = sum(part.to(torch.float64) for part in parts)
    return total / len(parts) if parts[0].dtype.is_floating_point else total // len(parts)


INTEGER_OPS = {Op.SUM: lambda p: folded(torch.add, p), Op.PRODUCT: lambda p: folded(torch.mul, p),
               Op.MIN: lambda p: folded(torch.minimum, p),
               Op.MAX: lambda p: folded(torch.maximum, p), Op.AVG: average,
               Op.BAND: lambda p: folded(torch.bitwise_and, p),
               Op.BOR: lambda p: folded(torch.bitwise_or, p),
               Op.BXOR: lambda p: folded(torch.bitwise_xor, p)}
FLOAT_OPS = {op: INTEGER_OPS[op] for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG)}
BOOL_OPS = {Op.SUM: INTEGER_OPS[Op.MAX], Op.MAX: INTEGER_OPS[Op.MAX], Op.BOR: INTEGER_OPS[Op.BOR],
            Op.PRODUCT: INTEGER_OPS[Op.MIN], Op.MIN: INTEGER_OPS[Op.MIN],
            Op.BAND: INTEGER_OPS[Op.BAND], Op.BXOR: INTEGER_OPS[Op.BXOR]}


def reductions():
    """Yields (type, operator, function that computes the expected result, tolerance)."""
    for dtype in FLOATS + NARROW:
        tolerance = 0.25 if dtype in NARROW else 2e-2 if dtype.itemsize == 2 else 1e-6
        for op, expected in FLOAT_OPS.items():
            yield dtype, op, expected, tolerance
        halves = dist._make_nccl_premul_sum(0.5)
        yield dtype, halves, lambda parts: INTEGER_OPS[Op.SUM](parts) * 0.5, tolerance
    for dtype in INTEGERS:
        for op, expected in INTEGER_OPS.items():
            yield dtype, op, expected, 0
    for op, expected in BOOL_OPS.items():
        yield torch.bool, op, expected, 0


def wait(work, later):
    assert (work is not None) == later
    if later:
        work.wait()
        assert work.is_completed()


def reduce_grid(rank, size):
    root = size - 1
    for dtype, op, expected, tolerance in reductions():
        for count in COUNTS[:4] if dtype != torch.float32 else COUNTS:
            later = count % 2 == 1
            parts = [given(r, count, dtype) for r in range(size)]
            wholes = [given(r, count * size, dtype) for r in range(size)]
            slices = [whole[rank * count:(rank + 1) * count] for whole in wholes]

            data = parts[rank].clone()
            wait(dist.all_reduce(data, op, async_op=later), later)
            same(data, expected(parts), tolerance)

            data = parts[rank].clone()
            wait(dist.reduce(data, root, op, async_op=later), later)
            same(data, expected(parts) if rank == root else parts[rank], tolerance)

            out = torch.zeros(count, dtype=torch.float32).to(dtype)
            wait(dist.reduce_scatter_tensor(out, wholes[rank].clone(), op, async_op=later), later)
            same(out, expected(slices), tolerance)

            out = torch.zeros(count, dtype=torch.float32).to(dtype)
            pieces = [piece.clone() for piece in wholes[rank].split(count)] if count else [
                out.clone() for _ in range(size)]
            wait(dist.reduce_scatter(out, pieces, op, async_op=later), later)
            same(out, expected(slices), tolerance)


def empty(count, dtype):
    return torch.zeros(count, dtype=torch.float32).to(dtype)


def move_one(rank, size, dtype, count, later):
    root = size // 2
    parts = [given(r, count, dtype) for r in range(size)]
    data = parts[rank].clone()
    wait(dist.broadcast(data, root, async_op=later), later)
    same(data, parts[root])

    outs = [empty(count, dtype) for _ in range(size)]
    wait(dist.all_gather(outs, parts[rank], async_op=later), later)
    for out, part in zip(outs, parts):
        same(out, part)

    out = empty(count * size, dtype)
    wait(dist.all_gather_into_tensor(out, parts[rank], async_op=later), later)
    same(out, torch.cat(parts))

    outs = [empty(count, dtype) for _ in range(size)]
    wait(dist.gather(parts[rank], outs if rank == root else None, root, async_op=later), later)
    for out, part in zip(outs, parts):
        same(out, part if rank == root else empty(count, dtype))

    out = empty(count, dtype)
    pieces = [given(r, count, dtype, salt=1) for r in range(size)]
    wait(dist.scatter(out, pieces if rank == root else None, root, async_op=later), later)
    same(out, pieces[rank])

    mine = [given(rank, count + to, dtype, salt=to) for to in range(size)]
    theirs = [given(of, count + rank, dtype, salt=rank) for of in range(size)]
    outs = [empty(count + rank, dtype) for _ in range(size)]
    wait(dist.all_to_all(outs, mine, async_op=later), later)
    for out, part in zip(outs, theirs):
        same(out, part)

    out = empty((count + rank) * size, dtype)
    wait(dist.all_to_all_single(out, torch.cat(mine), [count + rank] * size,
                                [count + to for to in range(size)], async_op=later), later)
    same(out, torch.cat(theirs))

    out = empty(count * size, dtype)
    wait(dist.all_to_all_single(out, torch.cat([given(rank, count, dtype, salt=to)
                                                for to in range(size)]), async_op=later), later)
    same(out, torch.cat([given(of, count, dtype, salt=rank) for of in range(size)]))

    if size > 1:
        right, left = (rank + 1) % size, (rank - 1) % size
        out = empty(count, dtype)
        works = [dist.isend(parts[rank], right), dist.irecv(out, left)]
        for work in works:
            work.wait()
        same(out, parts[left])
        if rank == 0:
            dist.send(parts[0], 1)
        elif rank == 1:
            assert dist.recv(out, 0) == 0
            same(out, parts[0])


def move_grid(rank, size):
    for dtype in MOVED:
        for count in COUNTS[:4] if dtype != torch.float32 else COUNTS:
            move_one(rank, size, dtype, count, later=count % 2 == 1)
    dist.barrier()
    wait(dist.barrier(async_op=True), True)


def coalesced(rank, size):
    parts = [[given(r, 5 + i, torch.float32, salt=i) for i in range(3)] for r in range(size)]
    sums = [sum(parts[r][i] for r in range(size)) for i in range(3)]
    for later in (False, True):
        data = [part.clone() for part in parts[rank]]
        with dist._coalescing_manager(async_ops=later) as manager:
            for tensor in data:
                dist.all_reduce(tensor)
        if later:
            manager.wait()
        for tensor, total in zip(data, sums):
            same(tensor, total)

        outs = [torch.zeros(size * (5 + i)) for i in range(3)]
        with dist._coalescing_manager(async_ops=later) as manager:
            for out, part in zip(outs, parts[rank]):
                dist.all_gather_into_tensor(out, part)
        if later:
            manager.wait()
        for i, out in enumerate(outs):
            same(out, torch.cat([parts[r][i] for r in range(size)]))

        outs = [torch.zeros(2) for _ in range(3)]
        with dist._coalescing_manager(async_ops=later) as manager:
            for i, out in enumerate(outs):
                dist.reduce_scatter_tensor(out, torch.full((2 * size,), float(rank + i)))
        if later:
            manager.wait()
        for i, out in enumerate(outs):
            same(out, torch.full((2,), float(sum(r + i for r in range(size)))))

    # A kind of call that Python passes on one by one, and the handles of those calls.
    tensors = [torch.full((4,), float(rank)), torch.full((4,), float(rank))]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        early = dist.broadcast(tensors[0], size - 1, async_op=True)
        dist.broadcast(tensors[1], 0)
        assert not early.is_completed()
    manager.wait()
    early.wait()
    same(tensors[0], torch.full((4,), float(size - 1)))
    same(tensors[1], torch.zeros(4))


def neighbours(rank, size):
    """Batches of messages in both directions at once, more than a channel can hold."""
    right, left = (rank + 1) % size, (rank - 1) % size
    count = 1 << 20
    outs = [torch.zeros(count), torch.zeros(count)]
    mine = [torch.full((count,), float(rank)), torch.full((count,), float(-rank))]
    operations = [dist.P2POp(dist.isend, mine[0], right), dist.P2POp(dist.isend, mine[1], left),
                  dist.P2POp(dist.irecv, outs[0], left), dist.P2POp(dist.irecv, outs[1], right)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(outs[0], torch.full((count,), float(left)))
    same(outs[1], torch.full((count,), float(-right)))


def test_reductions():
    for size in (1, 2, 3, 4, 5, 7, 8):
        ranks(size, reduce_grid)


def test_movement():
    for size in (1, 2, 3, 4, 5, 7, 8):
        ranks(size, move_grid)


def test_coalescing():
    for size in (1, 2, 3, 4):
        ranks(size, coalesced)
    for size in (3, 5):
        ranks(size, neighbours)
