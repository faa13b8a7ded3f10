// RONDO_MPI_STATS: what was taken over, what was left to the MPI library, and why.
#pragma once

#include <cstddef>

#include "compat/mpi/mpi_library.h"

namespace rondo::compat {

/// Why a call is left to the MPI library.
enum class Reason {
  none, ///< it is not: Rondo runs it
  erroneous,
  op,
  type,
  intercommunicator,
  unknown_processes,
  early,
  no_counterpart,
  inactive, ///< not counted: before MPI_Init or after MPI_Finalize
};

enum class Function {
  allreduce,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  bcast,
  scatter,
  scatterv,
  gather,
  gatherv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  barrier,
};

/// Reads RONDO_MPI_STATS; says so on stderr if it is neither 0 nor 1.
void readStatsSetting();

/// Whether anything is counted: bytes are computed only then.
bool statsWanted();

/// One call. `bytes`: what this rank put in, or, of a broadcast or scatter, what it got. Any
/// thread.
void countCall(Function function, bool immediate, Reason reason, std::size_t bytes);

/// Collective over MPI_COMM_WORLD, and a barrier: where a rank counts, rank 0 prints the sums over
/// all ranks to stderr.
void printStats();

} // namespace rondo::compat
