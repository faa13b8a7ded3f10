// The part of MPI's standard ABI (MPI 5.0, chapter 20) that the interposer uses. The ABI fixes
// handles, constants and MPI_Status, so one build serves all MPI libraries that support it, and
// none of them is needed for the build.
#pragma once

#include <cstdint>

extern "C" {

using MPI_Aint = std::intptr_t;
using MPI_Count = std::int64_t;

// Handles are pointers; the predefined ones are small numbers.
using MPI_Comm = struct MPI_ABI_Comm*;
using MPI_Datatype = struct MPI_ABI_Datatype*;
using MPI_Errhandler = struct MPI_ABI_Errhandler*;
using MPI_Group = struct MPI_ABI_Group*;
using MPI_Info = struct MPI_ABI_Info*;
using MPI_Op = struct MPI_ABI_Op*;
using MPI_Request = struct MPI_ABI_Request*;

struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  int internal[5];
};

using MPI_Comm_copy_attr_function = int(MPI_Comm, int, void*, void*, void*, int*);
using MPI_Comm_delete_attr_function = int(MPI_Comm, int, void*, void*);
using MPI_Grequest_query_function = int(void*, MPI_Status*);
using MPI_Grequest_free_function = int(void*);
using MPI_Grequest_cancel_function = int(void*, int);

// Macros, as in mpi.h: null pointers cast from numbers are not constant expressions in C++.
#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MIN ((MPI_Op)0x22)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_PROD ((MPI_Op)0x24)
#define MPI_BAND ((MPI_Op)0x28)
#define MPI_BOR ((MPI_Op)0x29)
#define MPI_BXOR ((MPI_Op)0x2a)

#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)
#define MPI_GROUP_NULL ((MPI_Group)0x108)
#define MPI_ERRHANDLER_NULL ((MPI_Errhandler)0x140)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x141)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)

#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_AINT ((MPI_Datatype)0x201)
#define MPI_COUNT ((MPI_Datatype)0x202)
#define MPI_OFFSET ((MPI_Datatype)0x203)
#define MPI_PACKED ((MPI_Datatype)0x207)
#define MPI_SHORT ((MPI_Datatype)0x208)
#define MPI_INT ((MPI_Datatype)0x209)
#define MPI_LONG ((MPI_Datatype)0x20a)
#define MPI_LONG_LONG ((MPI_Datatype)0x20b)
#define MPI_UNSIGNED_SHORT ((MPI_Datatype)0x20c)
#define MPI_UNSIGNED ((MPI_Datatype)0x20d)
#define MPI_UNSIGNED_LONG ((MPI_Datatype)0x20e)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x20f)
#define MPI_FLOAT ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX ((MPI_Datatype)0x212)
#define MPI_CXX_FLOAT_COMPLEX ((MPI_Datatype)0x213)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_CXX_DOUBLE_COMPLEX ((MPI_Datatype)0x217)
#define MPI_LOGICAL ((MPI_Datatype)0x218)
#define MPI_INTEGER ((MPI_Datatype)0x219)
#define MPI_REAL ((MPI_Datatype)0x21a)
#define MPI_COMPLEX ((MPI_Datatype)0x21b)
#define MPI_DOUBLE_PRECISION ((MPI_Datatype)0x21c)
#define MPI_DOUBLE_COMPLEX ((MPI_Datatype)0x21d)
#define MPI_CHARACTER ((MPI_Datatype)0x21e)
#define MPI_LONG_DOUBLE ((MPI_Datatype)0x220)
#define MPI_C_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x224)
#define MPI_CXX_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x225)
#define MPI_C_BOOL ((MPI_Datatype)0x238)
#define MPI_CXX_BOOL ((MPI_Datatype)0x239)
#define MPI_WCHAR ((MPI_Datatype)0x23c)
#define MPI_INT8_T ((MPI_Datatype)0x240)
#define MPI_UINT8_T ((MPI_Datatype)0x241)
#define MPI_CHAR ((MPI_Datatype)0x243)
#define MPI_SIGNED_CHAR ((MPI_Datatype)0x244)
#define MPI_UNSIGNED_CHAR ((MPI_Datatype)0x245)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_INT16_T ((MPI_Datatype)0x248)
#define MPI_UINT16_T ((MPI_Datatype)0x249)
#define MPI_INT32_T ((MPI_Datatype)0x250)
#define MPI_UINT32_T ((MPI_Datatype)0x251)
#define MPI_INT64_T ((MPI_Datatype)0x258)
#define MPI_UINT64_T ((MPI_Datatype)0x259)
#define MPI_INTEGER1 ((MPI_Datatype)0x2c1)
#define MPI_INTEGER2 ((MPI_Datatype)0x2c9)
#define MPI_INTEGER4 ((MPI_Datatype)0x2d1)
#define MPI_REAL4 ((MPI_Datatype)0x2d2)
#define MPI_INTEGER8 ((MPI_Datatype)0x2d9)
#define MPI_REAL8 ((MPI_Datatype)0x2da)
#define MPI_COMPLEX8 ((MPI_Datatype)0x2db)
#define MPI_COMPLEX16 ((MPI_Datatype)0x2e3)

#define MPI_IN_PLACE ((void*)1)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)

inline constexpr int MPI_SUCCESS = 0;
inline constexpr int MPI_ERR_BUFFER = 1;
inline constexpr int MPI_ERR_ARG = 13;
inline constexpr int MPI_ERR_TRUNCATE = 15;
inline constexpr int MPI_ERR_OTHER = 16;
inline constexpr int MPI_ERR_INTERN = 17;
inline constexpr int MPI_ERR_IN_STATUS = 19;
inline constexpr int MPI_ERR_NO_MEM = 39;
inline constexpr int MPI_ERR_UNSUPPORTED_OPERATION = 55;
inline constexpr int MPI_KEYVAL_INVALID = 0;
inline constexpr int MPI_ANY_SOURCE = -1;
inline constexpr int MPI_ANY_TAG = -2;
inline constexpr int MPI_UNDEFINED = -32766;
inline constexpr int MPI_COMBINER_NAMED = 101;
inline constexpr int MPI_COMBINER_DUP = 102;
inline constexpr int MPI_COMBINER_CONTIGUOUS = 103;
inline constexpr int MPI_COMBINER_VECTOR = 104;
inline constexpr int MPI_COMBINER_HVECTOR = 105;
inline constexpr int MPI_COMBINER_INDEXED = 106;
inline constexpr int MPI_COMBINER_HINDEXED = 107;
inline constexpr int MPI_COMBINER_INDEXED_BLOCK = 108;
inline constexpr int MPI_COMBINER_HINDEXED_BLOCK = 109;
inline constexpr int MPI_COMBINER_STRUCT = 110;
inline constexpr int MPI_COMBINER_SUBARRAY = 111;
inline constexpr int MPI_COMBINER_F90_REAL = 113;
inline constexpr int MPI_COMBINER_F90_COMPLEX = 114;
inline constexpr int MPI_COMBINER_F90_INTEGER = 115;
inline constexpr int MPI_COMBINER_RESIZED = 116;
inline constexpr int MPI_MAX_ERROR_STRING = 512;

/// Declares MPI_name and PMPI_name.
#define RONDO_MPI_DECLARE(name, arguments) \
  int MPI_##name arguments;                \
  int PMPI_##name arguments;

RONDO_MPI_DECLARE(Init, (int*, char***))
RONDO_MPI_DECLARE(Init_thread, (int*, char***, int, int*))
RONDO_MPI_DECLARE(Finalize, ())
RONDO_MPI_DECLARE(Add_error_code, (int, int*))
RONDO_MPI_DECLARE(Add_error_string, (int, const char*))
RONDO_MPI_DECLARE(Error_class, (int, int*))
RONDO_MPI_DECLARE(Error_string, (int, char*, int*))
RONDO_MPI_DECLARE(Errhandler_free, (MPI_Errhandler*))
RONDO_MPI_DECLARE(Get_address, (const void*, MPI_Aint*))

RONDO_MPI_DECLARE(Comm_size, (MPI_Comm, int*))
RONDO_MPI_DECLARE(Comm_rank, (MPI_Comm, int*))
RONDO_MPI_DECLARE(Comm_test_inter, (MPI_Comm, int*))
RONDO_MPI_DECLARE(Comm_group, (MPI_Comm, MPI_Group*))
RONDO_MPI_DECLARE(Comm_call_errhandler, (MPI_Comm, int))
RONDO_MPI_DECLARE(Comm_get_errhandler, (MPI_Comm, MPI_Errhandler*))
RONDO_MPI_DECLARE(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))
RONDO_MPI_DECLARE(Comm_create_keyval,
                  (MPI_Comm_copy_attr_function*, MPI_Comm_delete_attr_function*, int*, void*))
RONDO_MPI_DECLARE(Comm_free_keyval, (int*))
RONDO_MPI_DECLARE(Comm_get_attr, (MPI_Comm, int, void*, int*))
RONDO_MPI_DECLARE(Comm_set_attr, (MPI_Comm, int, void*))
RONDO_MPI_DECLARE(Comm_delete_attr, (MPI_Comm, int))
RONDO_MPI_DECLARE(Group_size, (MPI_Group, int*))
RONDO_MPI_DECLARE(Group_rank, (MPI_Group, int*))
RONDO_MPI_DECLARE(Group_translate_ranks, (MPI_Group, int, const int*, MPI_Group, int*))
RONDO_MPI_DECLARE(Group_free, (MPI_Group*))

RONDO_MPI_DECLARE(Comm_dup, (MPI_Comm, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_dup_with_info, (MPI_Comm, MPI_Info, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_split, (MPI_Comm, int, int, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_split_type, (MPI_Comm, int, int, MPI_Info, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_create, (MPI_Comm, MPI_Group, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_create_group, (MPI_Comm, MPI_Group, int, MPI_Comm*))
RONDO_MPI_DECLARE(Intercomm_merge, (MPI_Comm, int, MPI_Comm*))
RONDO_MPI_DECLARE(Cart_create, (MPI_Comm, int, const int*, const int*, int, MPI_Comm*))
RONDO_MPI_DECLARE(Cart_sub, (MPI_Comm, const int*, MPI_Comm*))
RONDO_MPI_DECLARE(Graph_create, (MPI_Comm, int, const int*, const int*, int, MPI_Comm*))
RONDO_MPI_DECLARE(Dist_graph_create, (MPI_Comm, int, const int*, const int*, const int*, const int*,
                                      MPI_Info, int, MPI_Comm*))
RONDO_MPI_DECLARE(Dist_graph_create_adjacent, (MPI_Comm, int, const int*, const int*, int,
                                               const int*, const int*, MPI_Info, int, MPI_Comm*))
RONDO_MPI_DECLARE(Comm_free, (MPI_Comm*))
RONDO_MPI_DECLARE(Comm_disconnect, (MPI_Comm*))

RONDO_MPI_DECLARE(Type_size, (MPI_Datatype, int*))
RONDO_MPI_DECLARE(Type_size_x, (MPI_Datatype, MPI_Count*))
RONDO_MPI_DECLARE(Type_get_extent, (MPI_Datatype, MPI_Aint*, MPI_Aint*))
RONDO_MPI_DECLARE(Type_get_envelope, (MPI_Datatype, int*, int*, int*, int*))
RONDO_MPI_DECLARE(Type_get_contents, (MPI_Datatype, int, int, int, int*, MPI_Aint*, MPI_Datatype*))
RONDO_MPI_DECLARE(Type_create_hindexed,
                  (int, const int*, const MPI_Aint*, MPI_Datatype, MPI_Datatype*))
RONDO_MPI_DECLARE(Type_contiguous, (int, MPI_Datatype, MPI_Datatype*))
RONDO_MPI_DECLARE(Type_commit, (MPI_Datatype*))
RONDO_MPI_DECLARE(Type_free, (MPI_Datatype*))
RONDO_MPI_DECLARE(Pack, (const void*, int, MPI_Datatype, void*, int, int*, MPI_Comm))
RONDO_MPI_DECLARE(Unpack, (const void*, int, int*, void*, int, MPI_Datatype, MPI_Comm))

RONDO_MPI_DECLARE(Grequest_start, (MPI_Grequest_query_function*, MPI_Grequest_free_function*,
                                   MPI_Grequest_cancel_function*, void*, MPI_Request*))
RONDO_MPI_DECLARE(Grequest_complete, (MPI_Request))
RONDO_MPI_DECLARE(Status_set_elements, (MPI_Status*, MPI_Datatype, int))
RONDO_MPI_DECLARE(Status_set_cancelled, (MPI_Status*, int))
RONDO_MPI_DECLARE(Wait, (MPI_Request*, MPI_Status*))
RONDO_MPI_DECLARE(Test, (MPI_Request*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Waitall, (int, MPI_Request*, MPI_Status*))
RONDO_MPI_DECLARE(Testall, (int, MPI_Request*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Waitany, (int, MPI_Request*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Testany, (int, MPI_Request*, int*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Waitsome, (int, MPI_Request*, int*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Testsome, (int, MPI_Request*, int*, int*, MPI_Status*))
RONDO_MPI_DECLARE(Request_get_status, (MPI_Request, int*, MPI_Status*))
RONDO_MPI_DECLARE(Barrier, (MPI_Comm))
RONDO_MPI_DECLARE(Ibarrier, (MPI_Comm, MPI_Request*))
#undef RONDO_MPI_DECLARE

} // extern "C"
