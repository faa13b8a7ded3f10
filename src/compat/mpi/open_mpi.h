// Open MPI's predefined handles, which are addresses of variables in its library. They are found at
// run time, like its functions: a direct reference to a variable would have to be resolved when the
// interposer is loaded, even into programs that do not use MPI.
#pragma once

// clang-format off
#define RONDO_MPI_VARIABLES(X)                                                                     \
  X(ompi_mpi_comm_null) X(ompi_mpi_comm_self) X(ompi_mpi_comm_world) X(ompi_mpi_datatype_null)     \
  X(ompi_mpi_errhandler_null) X(ompi_mpi_errors_are_fatal) X(ompi_mpi_errors_return)               \
  X(ompi_mpi_group_null) X(ompi_request_null) X(ompi_mpi_op_band) X(ompi_mpi_op_bor)               \
  X(ompi_mpi_op_bxor) X(ompi_mpi_op_max) X(ompi_mpi_op_min) X(ompi_mpi_op_prod)                    \
  X(ompi_mpi_op_sum) X(ompi_mpi_aint) X(ompi_mpi_byte) X(ompi_mpi_c_bool)                          \
  X(ompi_mpi_c_double_complex) X(ompi_mpi_c_float_complex) X(ompi_mpi_c_long_double_complex)       \
  X(ompi_mpi_char) X(ompi_mpi_character) X(ompi_mpi_complex16) X(ompi_mpi_complex8)                \
  X(ompi_mpi_count) X(ompi_mpi_cplex) X(ompi_mpi_cxx_bool) X(ompi_mpi_cxx_cplex)                   \
  X(ompi_mpi_cxx_dblcplex) X(ompi_mpi_cxx_ldblcplex) X(ompi_mpi_dblcplex) X(ompi_mpi_dblprec)      \
  X(ompi_mpi_double) X(ompi_mpi_float) X(ompi_mpi_int) X(ompi_mpi_int16_t) X(ompi_mpi_int32_t)     \
  X(ompi_mpi_int64_t) X(ompi_mpi_int8_t) X(ompi_mpi_integer) X(ompi_mpi_integer1)                  \
  X(ompi_mpi_integer2) X(ompi_mpi_integer4) X(ompi_mpi_integer8) X(ompi_mpi_logical)               \
  X(ompi_mpi_long) X(ompi_mpi_long_double) X(ompi_mpi_long_long_int) X(ompi_mpi_offset)            \
  X(ompi_mpi_packed) X(ompi_mpi_real) X(ompi_mpi_real4) X(ompi_mpi_real8) X(ompi_mpi_short)        \
  X(ompi_mpi_signed_char) X(ompi_mpi_uint16_t) X(ompi_mpi_uint32_t) X(ompi_mpi_uint64_t)           \
  X(ompi_mpi_uint8_t) X(ompi_mpi_unsigned) X(ompi_mpi_unsigned_char) X(ompi_mpi_unsigned_long)     \
  X(ompi_mpi_unsigned_long_long) X(ompi_mpi_unsigned_short) X(ompi_mpi_wchar)
// clang-format on

#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(rondo::compat::mpi().global))
