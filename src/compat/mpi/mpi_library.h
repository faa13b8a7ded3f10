// The functions of the MPI library that are taken over or called. They are looked up by name at run
// time. The interposer is linked with no MPI library, so one build serves all libraries with the
// same ABI, whatever the names of their files.
#pragma once

#ifdef RONDO_MPI_STANDARD_ABI
#pragma GCC visibility push(default)
#include "compat/mpi/standard_abi.h"
#pragma GCC visibility pop
#else
// Only the C interface: the old C++ interface of some MPIs is not used, and causes warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
// Our functions of the same names must be visible, and not every mpi.h declares them so.
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop
#endif

#ifdef OPEN_MPI
#include "compat/mpi/open_mpi.h"
#else
#define RONDO_MPI_VARIABLES(X)
#endif

namespace rondo::compat {

#ifdef OPEN_MPI
inline constexpr bool kForOpenMpi = true;
#else
inline constexpr bool kForOpenMpi = false;
#endif

// Functions that are exported under their MPI_ and their PMPI_ name. Both are needed: the MPI
// libraries' Fortran functions call one or the other, with handles and special addresses already
// converted. So no Fortran entry points are needed here.
// clang-format off
#define RONDO_MPI_ENTRY_POINTS(X)                                                                  \
  X(Init) X(Init_thread) X(Finalize)                                                               \
  X(Comm_dup) X(Comm_dup_with_info) X(Comm_split) X(Comm_split_type) X(Comm_create)                \
  X(Comm_create_group) X(Intercomm_merge) X(Cart_create) X(Cart_sub) X(Graph_create)               \
  X(Dist_graph_create) X(Dist_graph_create_adjacent) X(Comm_free) X(Comm_disconnect)               \
  X(Barrier) X(Ibarrier)                                                                           \
  X(Wait) X(Test) X(Waitall) X(Testall) X(Waitany) X(Testany) X(Waitsome) X(Testsome)              \
  X(Request_get_status)

// Functions that are only called.
#define RONDO_MPI_CALLED(X)                                                                        \
  X(Add_error_code) X(Add_error_string) X(Error_class) X(Error_string) X(Errhandler_free)          \
  X(Comm_call_errhandler) X(Comm_get_errhandler) X(Comm_set_errhandler)                            \
  X(Comm_create_keyval) X(Comm_free_keyval) X(Comm_get_attr) X(Comm_set_attr) X(Comm_delete_attr)  \
  X(Comm_size) X(Comm_rank) X(Comm_test_inter) X(Comm_group)                                       \
  X(Group_size) X(Group_rank) X(Group_translate_ranks) X(Group_free)                               \
  X(Type_size) X(Type_size_x) X(Type_get_extent) X(Type_get_envelope) X(Type_get_contents)         \
  X(Type_create_hindexed) X(Type_contiguous) X(Type_commit) X(Type_free)                           \
  X(Get_address) X(Pack) X(Unpack)                                                                 \
  X(Grequest_start) X(Grequest_complete) X(Status_set_elements) X(Status_set_cancelled)

// Collectives with counts, and their parameters before the communicator. `Count` and `Place` are
// int, and in the large-count forms, which MPI has since 4.0, MPI_Count and MPI_Aint.
#define RONDO_MPI_COLLECTIVES(X)                                                                   \
  X(Allreduce, Iallreduce, const void*, void*, Count, MPI_Datatype, MPI_Op)                        \
  X(Reduce, Ireduce, const void*, void*, Count, MPI_Datatype, MPI_Op, int)                         \
  X(Reduce_scatter, Ireduce_scatter, const void*, void*, const Count*, MPI_Datatype, MPI_Op)       \
  X(Reduce_scatter_block, Ireduce_scatter_block, const void*, void*, Count, MPI_Datatype, MPI_Op)  \
  X(Scan, Iscan, const void*, void*, Count, MPI_Datatype, MPI_Op)                                  \
  X(Exscan, Iexscan, const void*, void*, Count, MPI_Datatype, MPI_Op)                              \
  X(Bcast, Ibcast, void*, Count, MPI_Datatype, int)                                                \
  X(Scatter, Iscatter, const void*, Count, MPI_Datatype, void*, Count, MPI_Datatype, int)          \
  X(Scatterv, Iscatterv, const void*, const Count*, const Place*, MPI_Datatype, void*, Count,      \
    MPI_Datatype, int)                                                                             \
  X(Gather, Igather, const void*, Count, MPI_Datatype, void*, Count, MPI_Datatype, int)            \
  X(Gatherv, Igatherv, const void*, Count, MPI_Datatype, void*, const Count*, const Place*,        \
    MPI_Datatype, int)                                                                             \
  X(Allgather, Iallgather, const void*, Count, MPI_Datatype, void*, Count, MPI_Datatype)           \
  X(Allgatherv, Iallgatherv, const void*, Count, MPI_Datatype, void*, const Count*,                \
    const Place*, MPI_Datatype)                                                                    \
  X(Alltoall, Ialltoall, const void*, Count, MPI_Datatype, void*, Count, MPI_Datatype)             \
  X(Alltoallv, Ialltoallv, const void*, const Count*, const Place*, MPI_Datatype,                  \
    void*, const Count*, const Place*, MPI_Datatype)

// MPI's User Level Failure Mitigation (ULFM), with arguments, since not every mpi.h declares it.
#define RONDO_MPI_ULFM(X)                                                                          \
  X(Comm_revoke, (MPI_Comm)) X(Comm_is_revoked, (MPI_Comm, int*))                                  \
  X(Comm_shrink, (MPI_Comm, MPI_Comm*)) X(Comm_agree, (MPI_Comm, int*))                            \
  X(Comm_get_failed, (MPI_Comm, MPI_Group*))

// Functions of MPI 4.0 and 4.1, with arguments for the same reason: those that are exported, and
// those that are only called.
#define RONDO_MPI_NEWER_ENTRY_POINTS(X)                                                            \
  X(Request_get_status_any, (int, const MPI_Request*, int*, int*, MPI_Status*))                    \
  X(Request_get_status_all, (int, const MPI_Request*, int*, MPI_Status*))                          \
  X(Request_get_status_some, (int, const MPI_Request*, int*, int*, MPI_Status*))
#define RONDO_MPI_NEWER_CALLED(X)                                                                  \
  X(Type_get_envelope_c,                                                                           \
    (MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*))                          \
  X(Type_get_contents_c, (MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*,          \
                          MPI_Aint*, MPI_Count*, MPI_Datatype*))                                   \
  X(Pack_c, (const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Count*, MPI_Comm))        \
  X(Unpack_c, (const void*, MPI_Count, MPI_Count*, void*, MPI_Count, MPI_Datatype, MPI_Comm))
// clang-format on

/// The collectives with counts.
template <class Count, class Place>
struct Collectives {
#define RONDO_MPI_FIELD(name, i_name, ...) \
  int (*name)(__VA_ARGS__, MPI_Comm);      \
  int (*i_name)(__VA_ARGS__, MPI_Comm, MPI_Request*);
  RONDO_MPI_COLLECTIVES(RONDO_MPI_FIELD)
#undef RONDO_MPI_FIELD
};
using PlainCollectives = Collectives<int, int>;
using LargeCollectives = Collectives<MPI_Count, MPI_Aint>;

/// The MPI library's functions, by name without prefix, and the variables whose addresses
/// are handles.
struct MpiLibrary : PlainCollectives {
  LargeCollectives large; ///< null: this MPI library does not have it
#define RONDO_MPI_FIELD(name) decltype(&PMPI_##name) name;
  RONDO_MPI_ENTRY_POINTS(RONDO_MPI_FIELD)
  RONDO_MPI_CALLED(RONDO_MPI_FIELD)
#undef RONDO_MPI_FIELD
  // Null: this MPI library does not have it.
#define RONDO_MPI_FIELD(name, arguments) int(*name) arguments;
  RONDO_MPI_ULFM(RONDO_MPI_FIELD)
  RONDO_MPI_NEWER_ENTRY_POINTS(RONDO_MPI_FIELD)
  RONDO_MPI_NEWER_CALLED(RONDO_MPI_FIELD)
#undef RONDO_MPI_FIELD
#define RONDO_MPI_FIELD(name) void* name;
  RONDO_MPI_VARIABLES(RONDO_MPI_FIELD)
#undef RONDO_MPI_FIELD
};

/// Finds all of them. Ends the process if no MPI library is loaded, or one of another ABI: its
/// handles could not even be passed on, since their types differ.
MpiLibrary findMpi();

/// The functions that the symbol search finds after this library. Any thread. Must not be used
/// while this library is being loaded, since the process need not be an MPI program.
inline const MpiLibrary& mpi() {
  static const MpiLibrary library = findMpi();
  return library;
}

// Programs look up functions of MPI 4.1 by name, as mpi4py does, and call those that they find.
// Open MPI 5 and older have none, so the interposer for them exports none.
#if defined(OPEN_MPI) && MPI_VERSION < 4
#define RONDO_MPI_NEWER 0
#else
#define RONDO_MPI_NEWER 1
#endif

/// For the definition of a function that not every mpi.h declares.
#define RONDO_MPI_VISIBLE __attribute__((visibility("default")))

/// Exports MPI_name, defined above in the same file, as PMPI_name too. (Formatting would split the
/// string.)
// clang-format off
#define RONDO_MPI_EXPORT(name)                                                                     \
  extern "C" RONDO_MPI_VISIBLE decltype(MPI_##name) PMPI_##name                                    \
      __attribute__((alias("MPI_" #name)))
// clang-format on

} // namespace rondo::compat
