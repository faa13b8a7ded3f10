// The collectives of the MPI library, twice: as the program's calls are bound, and as the library
// itself defines them.
#pragma once

#include <mpi.h>

#define COMPAT_COUNTED(X)                        \
  X(Allreduce, Iallreduce)                       \
  X(Reduce, Ireduce)                             \
  X(Bcast, Ibcast)                               \
  X(Scatter, Iscatter)                           \
  X(Scatterv, Iscatterv)                         \
  X(Gather, Igather)                             \
  X(Gatherv, Igatherv)                           \
  X(Allgather, Iallgather)                       \
  X(Allgatherv, Iallgatherv)                     \
  X(Reduce_scatter, Ireduce_scatter)             \
  X(Reduce_scatter_block, Ireduce_scatter_block) \
  X(Scan, Iscan)                                 \
  X(Exscan, Iexscan)                             \
  X(Alltoall, Ialltoall)                         \
  X(Alltoallv, Ialltoallv)
#define COMPAT_COLLECTIVES(X) COMPAT_COUNTED(X) X(Barrier, Ibarrier)

namespace rondo::test {

#define COMPAT_MEMBER(blocking, immediate)      \
  decltype(&MPI_##blocking) blocking = nullptr; \
  decltype(&MPI_##immediate) immediate = nullptr;
struct Functions {
  COMPAT_COLLECTIVES(COMPAT_MEMBER)
};
#if MPI_VERSION >= 4
inline constexpr bool kHasLargeCounts = true;
#define COMPAT_LARGE_MEMBER(blocking, immediate)    \
  decltype(&MPI_##blocking##_c) blocking = nullptr; \
  decltype(&MPI_##immediate##_c) immediate = nullptr;
struct LargeFunctions {
  COMPAT_COUNTED(COMPAT_LARGE_MEMBER)
  COMPAT_MEMBER(Barrier, Ibarrier)
};
#undef COMPAT_LARGE_MEMBER
#else
inline constexpr bool kHasLargeCounts = false;
struct LargeFunctions {};
#endif
#undef COMPAT_MEMBER

struct Library : Functions {
  LargeFunctions large{};
};

/// The MPI_X that the program's calls reach: that of a preloaded library, if there is one.
const Library& called();
/// The PMPI_X that the program's calls reach.
const Library& calledByProfilingName();
/// The PMPI_X of the MPI library itself, even if a library is preloaded. Ends the program if there
/// is none.
const Library& original();

} // namespace rondo::test
