"""Tests other duties of a torch.distributed backend: futures, groups, refusals, forks, options."""

import datetime
import gc
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from harness import raises, ranks, same


def handles(rank, size):
    total = size * (size + 1) / 2
    data = torch.full((1000,), rank + 1.0)
    work = dist.all_reduce(data, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0].sum().item())
    assert future.wait() == total * 1000
    assert work.is_completed()
    same(work.result()[0], data)
    assert dist.all_reduce(data, async_op=True).get_future().wait()[0] is not None

    # The program keeps neither the handles nor the tensors of these calls.
    for _ in range(20):
        dist.all_reduce(torch.ones(100_003), async_op=True)
        dist.isend(torch.ones(7), (rank + 1) % size)
        dist.irecv(torch.ones(7), (rank - 1) % size)
    gc.collect()
    check = torch.full((100_003,), float(rank))
    dist.all_reduce(check)
    same(check, torch.full((100_003,), total - size))

    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for i in range(20):
            dist.isend(torch.full((100_003,), float(i)), (rank + 1) % size)
    filling = [torch.full((100_003,), -1.0) for _ in range(20)]
    for i in range(20):
        dist.recv(check, (rank - 1) % size)
        same(check, torch.full((100_003,), float(i)))
    manager.wait()
    del filling

    works = [dist.all_reduce(torch.full((9,), float(i)), async_op=True) for i in range(50)]
    for i, work in reversed(list(enumerate(works))):
        assert work.wait(datetime.timedelta(seconds=30))
        same(work.result()[0], torch.full((9,), float(i * size)))


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank * 1000})
    assert [one["rank"] for one in gathered] == list(range(size))
    shared = ["from 0", 7] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == ["from 0", 7]
    mine = [None]
    dist.scatter_object_list(mine, list(range(size)) if rank == 1 else None, src=1)
    assert mine == [rank]
    dist.group.WORLD.monitored_barrier()

    tensor = functional.all_reduce(torch.full((5,), 1.0), "sum", dist.group.WORLD)
    same(tensor + 0, torch.full((5,), float(size)))
    whole = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD)
    assert whole.shape == (2 * size,)


def groups(rank, size):
    everybody = list(range(size))
    evens = dist.new_group(everybody[::2])
    odds = dist.new_group(everybody[1::2])
    mine, members = (odds, everybody[1::2]) if rank % 2 else (evens, everybody[::2])
    data = torch.full((10,), float(rank))
    dist.all_reduce(data, group=mine)
    same(data, torch.full((10,), float(sum(members))))
    dist.broadcast(data, members[-1], group=mine)
    backwards = dist.new_group(everybody)
    dist.destroy_process_group(mine)
    dist.all_reduce(data, group=backwards)

    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    row = mesh.get_group("columns")
    assert dist.get_world_size(row) == size // 2
    data = torch.ones(3)
    dist.all_reduce(data, group=row)
    same(data, torch.full((3,), size / 2))

    # torch.distributed.split_group() calls this, but needs a GPU.
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting
    part = dist.group.WORLD.split_group([0, 2], group_name="split", group_desc="two",
                                        opts=backend.options)
    assert (part is None) == (rank not in (0, 2))
    if part:
        data = torch.full((4,), float(rank))
        part.allreduce([data]).wait()
        same(data, torch.full((4,), 2.0))


def refusals(rank, size):
    matrix = torch.ones(4, 6)
    with raises(ValueError, "broadcast", "dense", "Sparse", "cpu"):
        dist.group.WORLD._get_backend(torch.device("cpu")).broadcast([matrix.to_sparse()])
    with raises(ValueError, "broadcast", "whole bytes", "UInt4"):
        dist.broadcast(torch.empty(4, dtype=torch.uint4), 0)
    with raises(ValueError, "band", "float"):
        dist.all_reduce(matrix, dist.ReduceOp.BAND)
    with raises(ValueError, "all_reduce", "Bool"):
        dist.all_reduce(torch.ones(3, dtype=torch.bool), dist.ReduceOp.AVG)
    with raises(ValueError, "all_to_all_single", "add up"):
        dist.all_to_all_single(torch.ones(4), torch.ones(4), [1] * size, [2] * size)
    with raises(ValueError, "all_gather_into_tensor", "as many elements"):
        dist.group.WORLD._get_backend(torch.device("cpu"))._allgather_base(
            torch.ones(size * 3), torch.ones(2))
    # Otherwise elements would move to other places than the shapes say.
    tall, wide = torch.ones(3, 2), [torch.ones(2, 3) for _ in range(size)]
    with raises(ValueError, "all_gather", "[2, 3]", "[3, 2]", "same shape"):
        dist.all_gather(wide, tall)
    with raises(ValueError, "all_gather", "[2, 3]", "[3, 2]"):
        dist.all_gather([tall if i == rank else wide[i] for i in range(size)], tall)
    with raises(ValueError, "reduce_scatter", "[2, 3]", "[3, 2]"):
        dist.reduce_scatter(tall, wide)
    if rank == 0:
        with raises(ValueError, "gather", "[2, 3]", "[3, 2]"):
            dist.gather(tall, wide)
        with raises(ValueError, "scatter", "[2, 3]", "[3, 2]"):
            dist.scatter(tall, wide)
    with raises(ValueError, "all_reduce", "2 tensors"):
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([matrix, matrix])
    # None of several calls is made if one is refused.
    flags, options = torch.full((3,), 1 << rank), dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.BOR
    with raises(ValueError, "all_reduce_coalesced", "bor", "float"):
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce_coalesced(
            [flags, torch.ones(3)], options)
    same(flags, torch.full((3,), 1 << rank))
    # Nothing was sent, so the group still works.
    dist.all_reduce(matrix)
    same(matrix, torch.full((4, 6), float(size)))


def one_store(rank, size):
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    # Uses the same store, and the same keys, several times.
    for turn in range(3):
        if rank == 0:
            time.sleep(0.2)  # the others would now read keys that the last turn has left
        dist.init_process_group("rondo", store=store, rank=rank, world_size=size)
        data = torch.full((3,), float(turn))
        dist.all_reduce(data)
        same(data, torch.full((3,), float(turn * size)))
        dist.destroy_process_group()


def loaders(rank, size):
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    sampler = torch.utils.data.distributed.DistributedSampler(data, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler, num_workers=2,
                                         multiprocessing_context="fork")
    total = torch.zeros(1)
    for _ in range(2):
        for (batch,) in loader:
            work = dist.all_reduce(batch, async_op=True)
            work.get_future().wait()
            total += batch.sum()
    same(total, torch.tensor([2 * 64 * 63 / 2.0]))


def in_rank_order(size):
    def body(rank, _size):
        torch.manual_seed(rank)
        parts = [None] * size
        mine = torch.rand(5001)
        dist.all_gather_object(parts, mine)
        data = mine.clone()
        dist.all_reduce(data)
        expected = parts[0].clone()
        for part in parts[1:]:
            expected += part
        assert torch.equal(data, expected)
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.options.deterministic and backend.options.transports == "tcp"
    return body


def both_devices(rank, size):
    data = torch.ones(3)
    dist.all_reduce(data)
    same(data, torch.full((3,), float(size)))
    assert dist.get_backend_config() == "cpu:rondo,cuda:rondo"
    dist.barrier()


def test_handles():
    for size in (2, 3, 4):
        ranks(size, handles)


def test_objects_and_functional():
    for size in (2, 3):
        ranks(size, objects)


def test_groups():
    ranks(4, groups)


def test_refusals():
    for size in (2, 3):
        ranks(size, refusals)


def test_one_store_serves_again():
    ranks(3, one_store)


def test_data_loaders_fork():
    ranks(2, loaders)


def test_options():
    import rondo_torch
    options = rondo_torch.Options()
    options.deterministic = True
    options.transports = "tcp"
    ranks(4, in_rank_order(4), pg_options=options)


def test_both_devices():
    ranks(2, both_devices, backend="cpu:rondo,cuda:rondo")
