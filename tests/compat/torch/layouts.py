"""Tests tensors that are not contiguous, sparse tensors and lists of lists, as Gloo accepts."""

import torch
import torch.distributed as dist

from harness import raises, ranks, same

# Each function creates a tensor of 3 x 4 elements with the given values, in a different layout.
LAYOUTS = {
    "contiguous": lambda values: values.clone(),
    "transposed": lambda values: values.t().contiguous().t(),
    "columns": lambda values: torch.stack([values, -values], dim=-1)[..., 0],
    "rows": lambda values: torch.cat([values, values])[::2].copy_(values),
}


def matrix(rank, salt=0):
    return (torch.arange(12.0) + 100 * rank + salt).reshape(3, 4)


def finish(work, later):
    assert (work is not None) == later
    if later:
        work.wait()


def every_call(rank, size, layout, later):
    make = LAYOUTS[layout]
    parts = [matrix(r) for r in range(size)]
    total = sum(parts)

    data = make(parts[rank])
    finish(dist.all_reduce(data, async_op=later), later)
    same(data, total)
    data = make(parts[rank])
    finish(dist.reduce(data, size - 1, async_op=later), later)
    same(data, total if rank == size - 1 else parts[rank])
    data = make(parts[rank])
    finish(dist.broadcast(data, size - 1, async_op=later), later)
    same(data, parts[size - 1])

    outs = [make(torch.zeros(3, 4)) for _ in range(size)]
    finish(dist.all_gather(outs, make(parts[rank]), async_op=later), later)
    for out, part in zip(outs, parts):
        same(out, part)
    outs = [make(torch.zeros(3, 4)) for _ in range(size)] if rank == 0 else None
    finish(dist.gather(make(parts[rank]), outs, 0, async_op=later), later)
    for out, part in zip(outs or [], parts):
        same(out, part)
    out = make(torch.zeros(3, 4))
    pieces = [make(matrix(r, salt=7)) for r in range(size)] if rank == 0 else None
    finish(dist.scatter(out, pieces, 0, async_op=later), later)
    same(out, matrix(rank, salt=7))
    out = make(torch.zeros(3, 4))
    pieces = [make(matrix(rank, salt=r)) for r in range(size)]
    finish(dist.reduce_scatter(out, pieces, async_op=later), later)
    same(out, sum(matrix(r, salt=rank) for r in range(size)))
    outs = [make(torch.zeros(3, 4)) for _ in range(size)]
    finish(dist.all_to_all(outs, pieces, async_op=later), later)
    for r, out in enumerate(outs):
        same(out, matrix(r, salt=rank))

    right, left = (rank + 1) % size, (rank - 1) % size
    out = make(torch.zeros(3, 4))
    works = [dist.isend(make(parts[rank]), right), dist.irecv(out, left)]
    for work in works:
        work.wait()
    same(out, parts[left])


def all_layouts(rank, size):
    for layout in LAYOUTS:
        for later in (False, True):
            try:
                every_call(rank, size, layout, later)
            except AssertionError as error:
                raise AssertionError(f"{layout}, async {later}: {error}") from error
    # Elements are sent in the order of the indices, even if the ranks' strides differ.
    data = LAYOUTS["transposed" if rank == 0 else "contiguous"](matrix(rank))
    dist.all_reduce(data)
    same(data, sum(matrix(r) for r in range(size)))

    image = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    same(image, size * torch.arange(120.0).reshape(2, 3, 4, 5))
    assert image.is_contiguous(memory_format=torch.channels_last)

    lazy_inputs(rank, size)
    parameter = torch.nn.Parameter(matrix(rank).t())
    dist.broadcast(parameter, 0)
    same(parameter.detach(), matrix(0).t())

    # The two halves of one matrix; then coalesced calls, and calls whose handle is dropped.
    whole = torch.zeros(3, 2 * size)
    into = [whole[:, 2 * r:2 * r + 2] for r in range(size)]
    dist.all_gather(into, torch.full((3, 2), float(rank)))
    same(whole, torch.arange(float(size)).repeat_interleave(2).repeat(3, 1))
    data = [LAYOUTS["transposed"](matrix(rank, salt)) for salt in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in data:
            dist.all_reduce(tensor)
    manager.wait()
    for salt, tensor in enumerate(data):
        same(tensor, sum(matrix(r, salt) for r in range(size)))
    data = LAYOUTS["columns"](matrix(rank))
    future = dist.all_reduce(data, async_op=True).get_future()
    same(future.wait()[0], sum(parts(size)))
    data = LAYOUTS["columns"](matrix(rank))
    work = dist.all_reduce(data, async_op=True)
    while not work.is_completed():
        pass
    same(data, sum(parts(size)))

    with raises(ValueError, "all_reduce", "must not overlap", "strides [0]"):
        dist.all_reduce(torch.ones(1).expand(4))


def lazy_inputs(rank, size):
    """Views that torch negates when it reads them. (As outputs they keep their values, because
    torch passes copies of them to every backend.)"""
    lazy = torch._neg_view(-matrix(rank))
    outs = [LAYOUTS["columns"](torch.zeros(3, 4)) for _ in range(size)]
    dist.all_gather(outs, lazy)
    for out, part in zip(outs, parts(size)):
        same(out, part)
    out = torch.zeros(3, 4)
    dist.reduce_scatter(out, [torch.complex(matrix(rank), -matrix(rank, r)).conj().imag
                              for r in range(size)])
    same(out, sum(matrix(r, rank) for r in range(size)))


def parts(size):
    return [matrix(r) for r in range(size)]


def sparse_of(rank, count=3):
    indices = torch.tensor([[(rank + i) % 5 for i in range(count)], [i % 4 for i in range(count)]])
    values = torch.arange(1.0, 2 * count + 1).reshape(count, 2) + rank
    return torch.sparse_coo_tensor(indices, values, (5, 4, 2))


def sparse(rank, size):
    for later in (False, True):
        data = sparse_of(rank)
        finish(dist.all_reduce(data, async_op=later), later)
        assert data.is_sparse
        same(data.to_dense(), sum(sparse_of(r).to_dense() for r in range(size)))
    # Tensors that are not coalesced, and a rank without elements.
    data = torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,))
    dist.all_reduce(data)
    same(data.to_dense(), torch.tensor([0.0, 3.0 * size, 0.0]))
    data = sparse_of(rank, 0 if rank == 0 else 2)
    dist.all_reduce(data)
    same(data.to_dense(), sum((sparse_of(r, 2).to_dense() for r in range(1, size)),
                              torch.zeros(5, 4, 2)))
    with raises(ValueError, "sparse", "SUM"):
        dist.all_reduce(sparse_of(rank), dist.ReduceOp.MAX)

    model = torch.nn.Sequential(torch.nn.Embedding(5, 1, sparse=True), torch.nn.Linear(1, 1))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[1].weight.fill_(2.0)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    for _ in range(2):
        parallel.zero_grad()
        parallel(torch.tensor([rank % 2, 3])).sum().backward()
        expected = torch.zeros(5, 1)
        for r in range(size):
            expected[r % 2] += 2.0 / size
            expected[3] += 2.0 / size
        same(model[0].weight.grad.to_dense(), expected, 1e-6)


def sparse_of_other_sizes(rank, size):
    with raises(dist.DistBackendError, "sparse_all_reduce", "sizes", "rank 1"):
        dist.all_reduce(torch.eye(3 + (rank == 1)).to_sparse())
    return True


def gather_coalesced(rank, size):
    inputs = [torch.full((2,), float(rank)), torch.full((2, 3), rank + 0.5).t()]
    for later in (False, True):
        outputs = [[torch.zeros(2), torch.zeros(3, 2)] for _ in range(size)]
        finish(dist.all_gather_coalesced(outputs, inputs, async_op=later), later)
        for r, (first, second) in enumerate(outputs):
            same(first, torch.full((2,), float(r)))
            same(second, torch.full((3, 2), r + 0.5))


def test_layouts():
    for size in (1, 2, 3):
        ranks(size, all_layouts)


def test_sparse():
    for size in (1, 2, 3):
        ranks(size, sparse)
    assert ranks(2, sparse_of_other_sizes) == [True, True]


def test_gather_coalesced():
    for size in (1, 2, 3):
        ranks(size, gather_coalesced)
