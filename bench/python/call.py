"""Times a small all_reduce of Python's interface, in batches: on a machine that others use, the
best batches are those without them.

usage: call.py numpy | gloo"""

import os
import sys
import time

import numpy

CALLS = 300


def batches(number, barrier, calls):
    """The times of one call in each batch, sorted, in microseconds."""
    times = []
    for _ in range(number):
        barrier()
        begin = time.perf_counter()
        calls()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
    return sorted(times)


def main():
    if sys.argv[1] == "gloo":
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
        os.environ.update(RANK=os.environ["RONDO_RANK"], WORLD_SIZE=os.environ["RONDO_SIZE"],
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["GLOO_PORT"])
        dist.init_process_group("gloo")
        a = torch.zeros(2)

        def calls():
            for _ in range(CALLS):
                dist.all_reduce(a)
        rank, times = dist.get_rank(), batches(10, dist.barrier, calls)
        dist.destroy_process_group()
    else:
        import rondo
        comm = rondo.init()
        a = numpy.zeros(2, numpy.float32)

        def calls():
            for _ in range(CALLS):
                comm.all_reduce(a)
        rank, times = comm.rank, batches(3000, comm.barrier, calls)
    if rank == 0:
        print(f"{sys.argv[1]:10} best {times[0]:.3f} us, 10th percentile "
              f"{times[len(times) // 10]:.3f} us")


if __name__ == "__main__":
    main()
