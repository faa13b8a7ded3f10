"""Collective communication between threads, processes and machines, for NumPy and friends.

Ranks call collectives together. This is a whole program (save it as add.py):

    import numpy, rondo
    comm = rondo.init()                          # rank and size come from the launcher
    a = numpy.full(1000, comm.rank + 1.0)
    comm.all_reduce(a)                           # in place, on all ranks
    print(f"rank {comm.rank} of {comm.size}: {a[999]}")

    rondo run -p 4 -- python add.py              # or torchrun, mpirun, srun

Ranks can be threads of one process too:

>>> def job(comm):
...     return comm.all_reduce(numpy.full(2, comm.rank + 1.0))
>>> rondo.run(job, ranks=4)[0]
array([10., 10.])

init(), threads(), run()    make communicators; so do join(), which uses a unique_id(), and split(),
                            shrink() and grow() of a Communicator
Communicator                rank, size, and the collectives: all_reduce, reduce, broadcast,
                            all_gather, reduce_scatter, gather, scatter, all_to_all, scan,
                            exclusive_scan, barrier, send, recv; those with blocks of different
                            sizes end with v; those that return a Future end with _async
Future                      wait(timeout), done(), result(timeout), await
GradientReducer             averages gradients over the ranks during the backward pass
plan(), predict(),          what a collective sends, and how long it takes: without ranks
simulate()
rondo.spark.run()           ranks that are tasks of a Spark job
Error                       code, culprit, call; ArgumentError and DTypeError are wrong arguments

From mpi4py and torch.distributed:

mpi4py                      torch.distributed           rondo
MPI.COMM_WORLD              init_process_group()        rondo.init()
Get_rank(), Get_size()      get_rank(), get_world_size() comm.rank, comm.size
Allreduce(IN_PLACE, a)      all_reduce(a)               comm.all_reduce(a)
Allreduce(a, out, MPI.MAX)                              comm.all_reduce(a, "max", out)
Reduce(a, out)              reduce(a, dst)              comm.reduce(a, root=dst)
Bcast(a, root)              broadcast(a, src)           comm.broadcast(a, root)
Allgather(a, out)           all_gather_into_tensor      comm.all_gather(a, out)
Reduce_scatter_block        reduce_scatter_tensor       comm.reduce_scatter(a)
Gather, Scatter             gather, scatter             comm.gather(a), comm.scatter(a, out)
Alltoall(a, out)            all_to_all_single           comm.all_to_all(a, out)
Allgatherv, Alltoallv, ...  all_to_all_single(splits)   comm.all_gatherv, comm.all_to_allv, ...
Scan(a), Exscan(a)                                      comm.scan(a), comm.exclusive_scan(a)
Barrier()                   barrier()                   comm.barrier()
Send(a, dest), Recv         send(a, dst), recv          comm.send(a, peer), comm.recv(a, peer)
Iallreduce() -> Request     async_op=True -> Work       comm.all_reduce_async() -> Future
Split(color, key)           new_group(ranks)            comm.split(color, key)
"""

from rondo import _ends
from rondo._errors import ArgumentError, DTypeError, Error
from rondo._rondo import (Communicator, Future, GradientReducer, ReduceOp, init, join, plan,
                          predict, simulate, threads, unique_id)
from rondo._run import run

__all__ = ["ArgumentError", "Communicator", "DTypeError", "Error", "Future", "GradientReducer",
           "ReduceOp", "init", "join", "plan", "predict", "run", "simulate", "threads",
           "unique_id"]
__version__ = "0.1.0"

_ends.watch()
