// What Rondo needs to know of MPI's datatypes and operators.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/mpi/mpi_library.h"
#include "compat/mpi/stats.h"
#include "rondo/types.h"

namespace rondo::compat {

/// Fills the tables of predefined types and operators. In MPI_Init, before anything is looked up.
void learnPredefined();

/// An MPI reduction in Rondo's words: an element of MPI's type is `factor` elements of `type`.
struct Reduction {
  Reason refused = Reason::none;
  DataType type = DataType::uint8;
  std::size_t factor = 1;
  ReduceOp op = ReduceOp::sum;
  std::size_t bytes() const { return sizeOf(type) * factor; }
};

/// Depends on nothing but both handles, which MPI says are the same on all ranks. Some nanoseconds.
Reduction reductionOf(MPI_Datatype type, MPI_Op op);

/// How elements of a type lie in memory.
struct Shape {
  std::size_t size = 0; ///< bytes of data of one element
  MPI_Aint extent = 0;  ///< bytes from one element to the next
  bool plain =
      false; ///< elements are `size` bytes each, without gaps, in the order of the type map
  bool predefined = false; ///< one of the table's, which are never uncommitted
};

/// Some nanoseconds for predefined types; derived ones are taken apart. Throws MpiFailure.
Shape shapeOf(MPI_Datatype type);

/// Of so many elements. Where there are none, MPI need not have looked at the type.
inline std::size_t bytesOf(std::size_t count, MPI_Datatype type) {
  return count == 0 ? 0 : count * shapeOf(type).size;
}

} // namespace rondo::compat
