// Translates MPI's datatypes and operators to Rondo's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compat/mpi/mpi_library.h"
#include "compat/mpi/stats.h"
#include "rondo/types.h"

namespace rondo::compat {

/// Fills the tables of predefined types and operators. To be called in MPI_Init, before any search.
void learnPredefined();

/// Handles are pointers in some MPI libraries and integers in others.
template <class Handle>
std::uint64_t numberOf(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) return reinterpret_cast<std::uintptr_t>(handle);
  else return static_cast<std::uint64_t>(handle);
}

/// Bytes of a type in the table; 0 if it is not there.
std::size_t predefinedSize(MPI_Datatype type);

/// An MPI reduction as Rondo's: an element of MPI's type is `factor` elements of `type`.
struct Reduction {
  Reason refused = Reason::none;
  DataType type = DataType::uint8;
  std::size_t factor = 1;
  ReduceOp op = ReduceOp::sum;
  std::size_t bytes() const { return sizeOf(type) * factor; }
};

/// Depends on the two handles only, which MPI requires to be the same on all ranks. Takes a
/// few nanoseconds.
Reduction reductionOf(MPI_Datatype type, MPI_Op op);

/// Layout of a type's elements in memory.
struct Shape {
  std::size_t size = 0; ///< bytes of data of one element
  MPI_Aint extent = 0;  ///< bytes from one element to the next
  /// Elements are contiguous: `size` bytes each, without gaps, in the order of the type map.
  bool plain = false;
  bool predefined = false; ///< in the table; such types are always committed
};

/// Takes a few nanoseconds for predefined types; derived types are analysed. Throws MpiFailure.
Shape shapeOf(MPI_Datatype type);

/// Bytes of `count` elements. With count 0 the type is not looked at, since MPI may not have
/// checked it.
inline std::size_t bytesOf(std::size_t count, MPI_Datatype type) {
  return count == 0 ? 0 : count * shapeOf(type).size;
}

} // namespace rondo::compat
