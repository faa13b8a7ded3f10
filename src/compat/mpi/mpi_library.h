// The MPI library behind the interposer: its own version of every function that is taken over.
#pragma once

// The C interface alone: the old C++ one of some MPIs is neither used nor free of warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
// Not every mpi.h says that its functions are visible, and ours of the same names must be.
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

namespace rondo::compat {

#ifdef OPEN_MPI
inline constexpr bool kForOpenMpi = true;
#else
inline constexpr bool kForOpenMpi = false;
#endif

// Every function that is exported under its MPI_ and its PMPI_ name. Both names are needed: Fortran
// calls go through the C functions of one name or the other, with handles and special addresses
// converted already, so that no Fortran entry point is needed here.
// clang-format off
#define RONDO_MPI_ENTRY_POINTS(X)                                                                  \
  X(Init) X(Init_thread) X(Finalize)                                                               \
  X(Comm_dup) X(Comm_dup_with_info) X(Comm_split) X(Comm_split_type) X(Comm_create)                \
  X(Comm_create_group) X(Intercomm_merge) X(Cart_create) X(Cart_sub) X(Graph_create)               \
  X(Dist_graph_create) X(Dist_graph_create_adjacent)                                               \
  X(Allreduce) X(Iallreduce) X(Reduce) X(Ireduce)                                                  \
  X(Reduce_scatter) X(Ireduce_scatter) X(Reduce_scatter_block) X(Ireduce_scatter_block)            \
  X(Bcast) X(Ibcast) X(Scatter) X(Iscatter) X(Scatterv) X(Iscatterv)                               \
  X(Gather) X(Igather) X(Gatherv) X(Igatherv)                                                      \
  X(Allgather) X(Iallgather) X(Allgatherv) X(Iallgatherv)                                          \
  X(Alltoall) X(Ialltoall) X(Alltoallv) X(Ialltoallv) X(Barrier) X(Ibarrier)                       \
  X(Wait) X(Test) X(Waitall) X(Testall) X(Waitany) X(Testany) X(Waitsome) X(Testsome)              \
  X(Request_get_status)
// clang-format on

/// The MPI library's functions, by the name without prefix.
struct MpiLibrary {
#define RONDO_MPI_FIELD(name) decltype(&PMPI_##name) name;
  RONDO_MPI_ENTRY_POINTS(RONDO_MPI_FIELD)
#undef RONDO_MPI_FIELD
};

/// Those that come after this library in the order of symbol search. Any thread.
const MpiLibrary& mpi();

/// Exports MPI_name, defined above in the same file, as PMPI_name too.
#define RONDO_MPI_EXPORT(name) \
  extern "C" decltype(PMPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)))

} // namespace rondo::compat
