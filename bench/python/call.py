"""Times all_reduce of float32 arrays by one of Python's interfaces, and checks a sum of each size.

usage: call.py rondo|gloo|mpi BYTES...

Rank 0 prints a line for each size: the bytes, and microseconds a call, the median of batches of
calls. Each rank keeps to a processor of its own."""

import atexit
import os
import statistics
import sys
import time

import numpy


def interface(name):
    """(rank, function that makes an array's all_reduce, barrier)"""
    if name == "rondo":
        import rondo
        comm = rondo.init()
        return comm.rank, lambda a: lambda: comm.all_reduce(a), comm.barrier
    if name == "mpi":
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        return world.rank, lambda a: lambda: world.Allreduce(MPI.IN_PLACE, a), world.Barrier
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(RANK=os.environ["RONDO_RANK"], WORLD_SIZE=os.environ["RONDO_SIZE"],
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["GLOO_PORT"])
    dist.init_process_group("gloo")
    # Ends torch's threads before the interpreter. One that then frees an array's tensor needs the
    # GIL, and the process would abort: "terminate called without an active exception".
    atexit.register(dist.destroy_process_group)

    def call_of(a):
        tensor = torch.from_numpy(a)
        return lambda: dist.all_reduce(tensor)
    return dist.get_rank(), call_of, dist.barrier


def main():
    rank, call_of, barrier = interface(sys.argv[1])
    os.sched_setaffinity(0, {rank})
    for size in map(int, sys.argv[2:]):
        a = numpy.full(size // 4, rank + 1, numpy.float32)
        call = call_of(a)
        call()
        if not (a == 3).all():
            sys.exit(f"{sys.argv[1]}: a wrong sum of {size} bytes")
        a[:] = 0
        calls, times = min(max((4 << 20) // size, 1), 300), []
        for _ in range(31 if size < 4 << 20 else 9):
            barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            times.append((time.perf_counter() - begin) / calls * 1e6)
        if rank == 0:
            print(size, f"{statistics.median(times):.4f}", flush=True)


if __name__ == "__main__":
    main()
