// RONDO_MPI_STATS: counts which calls were taken over, which were left to the MPI library, and why.
#pragma once

#include <cstddef>

#include "compat/mpi/mpi_library.h"

namespace rondo::compat {

/// Why a call is left to the MPI library.
enum class Reason {
  none, ///< it is not left: Rondo runs it
  erroneous,
  op,
  type,
  intercommunicator,
  unknown_processes,
  early,
  no_counterpart,
  being_freed,
  inactive, ///< not counted: before MPI_Init or after MPI_Finalize
};

enum class Function {
  allreduce,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
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

/// Reads RONDO_MPI_STATS. If it is neither 0 nor 1, prints a message on stderr.
void readStatsSetting();

extern bool stats_wanted; ///< written by MPI_Init only
/// Whether calls are counted. Bytes are computed only then.
inline bool statsWanted() { return stats_wanted; }

/// Counts one call. `bytes`: what this rank passed in, or, in a broadcast or scatter, what it
/// received. Any thread.
void countCall(Function function, bool immediate, Reason reason, std::size_t bytes);

/// If any rank counts, rank 0 prints the sums over all ranks to stderr. Collective over
/// MPI_COMM_WORLD, and a barrier. If a rank has died, each rank that counts prints its own.
void printStats();

} // namespace rondo::compat
