#!/usr/bin/env python3
"""A client like those of Python's serving engines: opens libnccl.so.2 by name and calls its
functions through ctypes, with a process for each rank and a pipe that passes the id.

usage: client.py RANKS
"""

import array
import ctypes
import multiprocessing
import sys

FLOAT, SUM = 7, 0
SUCCESS = 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Nccl:
    """Looks up all functions and sets their types before the first call."""

    SIGNATURES = {
        "ncclGetErrorString": (ctypes.c_char_p, [ctypes.c_int]),
        "ncclGetLastError": (ctypes.c_char_p, [ctypes.c_void_p]),
        "ncclGetVersion": (ctypes.c_int, [ctypes.POINTER(ctypes.c_int)]),
        "ncclGetUniqueId": (ctypes.c_int, [ctypes.POINTER(UniqueId)]),
        "ncclCommInitRank": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int,
                                            UniqueId, ctypes.c_int]),
        "ncclAllReduce": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                         ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
                                         ctypes.c_void_p]),
        "ncclBroadcast": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                         ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
                                         ctypes.c_void_p]),
        "ncclGroupStart": (ctypes.c_int, []),
        "ncclGroupEnd": (ctypes.c_int, []),
        "ncclCommDestroy": (ctypes.c_int, [ctypes.c_void_p]),
    }

    def __init__(self):
        library = ctypes.CDLL("libnccl.so.2")
        for name, (result, arguments) in self.SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def check(self, result):
        if result != SUCCESS:
            raise RuntimeError(f"{self.ncclGetErrorString(result).decode()}: "
                               f"{self.ncclGetLastError(None).decode()}")


def run(rank, ranks, pipes):
    nccl = Nccl()
    unique_id, comm, version = UniqueId(), ctypes.c_void_p(), ctypes.c_int()
    nccl.check(nccl.ncclGetVersion(ctypes.byref(version)))
    assert version.value >= 22809, version
    if rank == 0:
        nccl.check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
        for pipe in pipes[1:]:
            pipe[1].send(bytes(unique_id))
    else:
        unique_id = UniqueId.from_buffer_copy(pipes[rank][0].recv())
    nccl.check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank))
    data = array.array("f", [rank + 1.0] * 1000)
    where = data.buffer_info()[0]
    nccl.check(nccl.ncclAllReduce(where, where, len(data), FLOAT, SUM, comm, None))
    assert set(data) == {ranks * (ranks + 1) / 2}, data[:4]
    data[0] = rank
    nccl.check(nccl.ncclGroupStart())
    nccl.check(nccl.ncclBroadcast(where, where, 1, FLOAT, ranks - 1, comm, None))
    nccl.check(nccl.ncclGroupEnd())
    assert data[0] == ranks - 1, data[0]
    try:
        nccl.check(nccl.ncclBroadcast(where, where, 1, FLOAT, ranks, comm, None))
        raise AssertionError("a root that is not there was taken")
    except RuntimeError as error:
        assert f"root {ranks}" in str(error), error
    # multiprocessing ends processes by _exit(). Before that, rank 0 must hand over the control
    # plane that it hosts.
    nccl.check(nccl.ncclCommDestroy(comm))


def main():
    ranks = int(sys.argv[1])
    start = multiprocessing.get_context("fork")
    pipes = [start.Pipe(duplex=False) for _ in range(ranks)]
    processes = [start.Process(target=run, args=(rank, ranks, pipes)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit(1)
    print("ok")


main()
