"""Tests threads of one rank that call the same group at the same time."""

import threading

import torch
import torch.distributed as dist

from harness import ranks, same

THREADS, CALLS = 4, 100


def messages(rank, size):
    """The threads make their first receives at the same time, and many sends and receives."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for _ in range(10):
        part, wrong = dist.new_group(list(range(size))), []
        together = threading.Barrier(THREADS)

        def exchange(tag):
            try:
                outs = [torch.zeros(3) for _ in range(CALLS)]
                together.wait()
                works = [dist.irecv(out, left, tag=tag, group=part) for out in outs]
                works += [dist.isend(torch.full((3,), float(i)), right, tag=tag, group=part)
                          for i in range(CALLS)]
                for work in works:
                    work.wait()
                for i, out in enumerate(outs):
                    same(out, torch.full((3,), float(i)))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=exchange, args=(1 + i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            raise wrong[0]
        dist.destroy_process_group(part)


def test_threads_exchange_messages():
    ranks(2, messages)
