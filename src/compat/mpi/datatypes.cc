// Tables of predefined types and operators.
#include "compat/mpi/datatypes.h"

#include <array>
#include <optional>

#include "compat/mpi/contiguous.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

namespace {

struct Operator {
  MPI_Op handle{};
  ReduceOp op = ReduceOp::sum;
};

std::array<Operator, 7> operators; // written by learnPredefined() only

/// Rondo's type for a number of this sort and size, or nothing.
std::optional<DataType> numberType(Sort sort, std::uint32_t size) {
  switch (sort) {
    case Sort::opaque: return std::nullopt;
    case Sort::bytes: return DataType::uint8;
    case Sort::signed_integer: return detail::integerType(true, size);
    case Sort::unsigned_integer: return detail::integerType(false, size);
    case Sort::real:
      if (size == 4) return DataType::float32;
      if (size == 8) return DataType::float64;
      return std::nullopt;
    case Sort::complex: return numberType(Sort::real, size / 2);
  }
  return std::nullopt;
}

void learn(MPI_Datatype handle, Sort sort) {
  int size = 0;
  // A type that this MPI's compilers did not support is a null handle, or a type without a size.
  if (handle == MPI_DATATYPE_NULL || mpi().Type_size(handle, &size) != MPI_SUCCESS || size <= 0)
    return;
  const auto bytes = static_cast<std::uint32_t>(size);
  const auto number = numberType(sort, bytes);
  predefined_types.add(
      {handle, bytes, number ? sort : Sort::opaque, number.value_or(DataType::uint8)});
}

} // namespace

constinit PredefinedTypes predefined_types;

void learnPredefined() {
  // An MPI library may define the name of a type and still refuse its handle. Errors of calls
  // without a communicator go to MPI_COMM_WORLD in MPI 3, to MPI_COMM_SELF in MPI 4.
  const ErrorsReturned world(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  for (MPI_Datatype type :
       {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
        MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1,
        MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8})
    learn(type, Sort::signed_integer);
  for (MPI_Datatype type :
       {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
        MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T})
    learn(type, Sort::unsigned_integer);
  for (MPI_Datatype type :
       {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8})
    learn(type, Sort::real);
  for (MPI_Datatype type :
       {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX,
        MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16})
    learn(type, Sort::complex);
  learn(MPI_BYTE, Sort::bytes);
  for (MPI_Datatype type :
       {MPI_CHAR, MPI_WCHAR, MPI_C_BOOL, MPI_CXX_BOOL, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX,
        MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_PACKED, MPI_CHARACTER, MPI_LOGICAL})
    learn(type, Sort::opaque);
  operators = {{{MPI_SUM, ReduceOp::sum},
                {MPI_MAX, ReduceOp::max},
                {MPI_MIN, ReduceOp::min},
                {MPI_PROD, ReduceOp::prod},
                {MPI_BAND, ReduceOp::band},
                {MPI_BOR, ReduceOp::bor},
                {MPI_BXOR, ReduceOp::bxor}}};
}

Reduction reductionOf(MPI_Datatype type, MPI_Op op) {
  Reduction result;
  const Operator* found = nullptr;
  for (const Operator& one : operators)
    if (one.handle == op) {
      found = &one;
      break;
    }
  if (!found) {
    result.refused = Reason::op;
    return result;
  }
  const Predefined* const entry = predefined_types.find(type);
  result.op = found->op;
  result.refused = Reason::type;
  if (!entry) return result;
  result.type = entry->type;
  bool fits = false;
  switch (entry->sort) {
    case Sort::opaque: break;
    case Sort::bytes: fits = found->op.kind() >= ReduceOp::Kind::band; break;
    case Sort::signed_integer:
    case Sort::unsigned_integer: fits = true; break;
    case Sort::real: fits = found->op.supports(entry->type); break;
    case Sort::complex:
      // Complex numbers can be added part by part; no other operator works that way.
      result.factor = 2;
      fits = found->op == ReduceOp::sum;
      break;
  }
  if (fits) result.refused = Reason::none;
  return result;
}

Shape shapeOfDerived(MPI_Datatype type) {
  Shape shape;
  MPI_Count size = 0;
  MPI_Aint lb = 0;
  check(mpi().Type_size_x(type, &size));
  check(mpi().Type_get_extent(type, &lb, &shape.extent));
  shape.size = static_cast<std::size_t>(size);
  shape.plain = lb == 0 && shape.extent == size && contiguous(type, size);
  return shape;
}

} // namespace rondo::compat
