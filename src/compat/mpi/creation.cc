// The functions that create and free communicators. Each new communicator gets its counterpart at
// once, so that nonblocking calls find it.
//
// MPI_Comm_idup is not among them: its ranks need not be in the call, nor in the wait for it, at
// the same time. Its communicators get their counterparts in their first blocking collective.
#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

namespace {

/// Called after a function that all ranks of `from` call.
int madeOf(MPI_Comm from, int result, const MPI_Comm* comm) noexcept {
  if (result != MPI_SUCCESS) return result;
  try {
    makeCounterpartFrom(from, *comm);
    return result;
  } catch (...) {
    return raise(from, currentFailure(from));
  }
}

/// Called after a function that only ranks of the new communicator call, or ranks of
/// several communicators.
int made(int result, const MPI_Comm* comm) noexcept {
  if (result != MPI_SUCCESS || *comm == MPI_COMM_NULL) return result;
  try {
    makeCounterpart(*comm);
    return result;
  } catch (...) {
    return raise(*comm, currentFailure(*comm));
  }
}

/// Frees the communicator by a function of the MPI library.
int freed(int (*const function)(MPI_Comm*), MPI_Comm* comm) {
  const BeingFreed here(comm ? *comm : MPI_COMM_NULL);
  return function(comm);
}

} // namespace

} // namespace rondo::compat

using namespace rondo::compat;

extern "C" int MPI_Comm_dup(MPI_Comm from, MPI_Comm* comm) {
  return madeOf(from, mpi().Comm_dup(from, comm), comm);
}
extern "C" int MPI_Comm_dup_with_info(MPI_Comm from, MPI_Info info, MPI_Comm* comm) {
  return madeOf(from, mpi().Comm_dup_with_info(from, info, comm), comm);
}
extern "C" int MPI_Comm_split(MPI_Comm from, int color, int key, MPI_Comm* comm) {
  return madeOf(from, mpi().Comm_split(from, color, key, comm), comm);
}
extern "C" int MPI_Comm_split_type(MPI_Comm from, int type, int key, MPI_Info info,
                                   MPI_Comm* comm) {
  return madeOf(from, mpi().Comm_split_type(from, type, key, info, comm), comm);
}
extern "C" int MPI_Comm_create(MPI_Comm from, MPI_Group group, MPI_Comm* comm) {
  return madeOf(from, mpi().Comm_create(from, group, comm), comm);
}
extern "C" int MPI_Comm_create_group(MPI_Comm from, MPI_Group group, int tag, MPI_Comm* comm) {
  return made(mpi().Comm_create_group(from, group, tag, comm), comm);
}
extern "C" int MPI_Intercomm_merge(MPI_Comm from, int high, MPI_Comm* comm) {
  return made(mpi().Intercomm_merge(from, high, comm), comm);
}
extern "C" int MPI_Cart_create(MPI_Comm from, int dimensions, const int sizes[],
                               const int periods[], int reorder, MPI_Comm* comm) {
  return madeOf(from, mpi().Cart_create(from, dimensions, sizes, periods, reorder, comm), comm);
}
extern "C" int MPI_Cart_sub(MPI_Comm from, const int remain[], MPI_Comm* comm) {
  return madeOf(from, mpi().Cart_sub(from, remain, comm), comm);
}
extern "C" int MPI_Graph_create(MPI_Comm from, int nodes, const int index[], const int edges[],
                                int reorder, MPI_Comm* comm) {
  return madeOf(from, mpi().Graph_create(from, nodes, index, edges, reorder, comm), comm);
}
extern "C" int MPI_Dist_graph_create(MPI_Comm from, int nodes, const int sources[],
                                     const int degrees[], const int destinations[],
                                     const int weights[], MPI_Info info, int reorder,
                                     MPI_Comm* comm) {
  return madeOf(from,
                mpi().Dist_graph_create(from, nodes, sources, degrees, destinations, weights, info,
                                        reorder, comm),
                comm);
}
extern "C" int MPI_Dist_graph_create_adjacent(MPI_Comm from, int in_degree, const int sources[],
                                              const int source_weights[], int out_degree,
                                              const int destinations[],
                                              const int destination_weights[], MPI_Info info,
                                              int reorder, MPI_Comm* comm) {
  return madeOf(
      from,
      mpi().Dist_graph_create_adjacent(from, in_degree, sources, source_weights, out_degree,
                                       destinations, destination_weights, info, reorder, comm),
      comm);
}

extern "C" int MPI_Comm_free(MPI_Comm* comm) { return freed(mpi().Comm_free, comm); }
extern "C" int MPI_Comm_disconnect(MPI_Comm* comm) { return freed(mpi().Comm_disconnect, comm); }

RONDO_MPI_EXPORT(Comm_dup);
RONDO_MPI_EXPORT(Comm_dup_with_info);
RONDO_MPI_EXPORT(Comm_split);
RONDO_MPI_EXPORT(Comm_split_type);
RONDO_MPI_EXPORT(Comm_create);
RONDO_MPI_EXPORT(Comm_create_group);
RONDO_MPI_EXPORT(Intercomm_merge);
RONDO_MPI_EXPORT(Cart_create);
RONDO_MPI_EXPORT(Cart_sub);
RONDO_MPI_EXPORT(Graph_create);
RONDO_MPI_EXPORT(Dist_graph_create);
RONDO_MPI_EXPORT(Dist_graph_create_adjacent);
RONDO_MPI_EXPORT(Comm_free);
RONDO_MPI_EXPORT(Comm_disconnect);
