// The send side or the receive side of a call that moves data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "compat/mpi/buffers.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

/// Data move as these, whatever their type.
inline constexpr DataType kByte = DataType::uint8;

/// One buffer, count and type, as the program gave them.
struct Side {
  const void* buffer;
  std::ptrdiff_t count;
  MPI_Datatype type;

  bool inPlace() const { return buffer == MPI_IN_PLACE; }
  bool wrong() const { return count < 0 || type == MPI_DATATYPE_NULL || inPlace(); }

  /// `blocks` times the count.
  Elements elements(const Staging& staging, int blocks = 1) const {
    return {const_cast<void*>(buffer),
            static_cast<std::size_t>(count) * static_cast<std::size_t>(blocks), type,
            staging.shapeOf(type)};
  }
  std::size_t bytes() const {
    return wrong() ? 0 : static_cast<std::size_t>(count) * shapeOf(type).size;
  }
};

/// The element that is `blocks` blocks of this side's count after the first, and its block.
inline Elements blockOf(const Side& side, const Elements& all, int block) {
  return {elementAt(all.buffer, side.count * block, all.shape),
          static_cast<std::size_t>(side.count), all.type, all.shape};
}

/// The side of a v-form that has one block for each rank.
struct Sides {
  const void* buffer;
  const int* counts;
  const int* displacements;
  MPI_Datatype type;

  bool inPlace() const { return buffer == MPI_IN_PLACE; }
  bool wrong(int ranks) const {
    return !counts || !displacements || type == MPI_DATATYPE_NULL || inPlace() ||
           std::any_of(counts, counts + ranks, [](int c) { return c < 0; });
  }
  ElementBlocks blocks(const Staging& staging, int ranks) const {
    return {const_cast<void*>(buffer),
            {counts, static_cast<std::size_t>(ranks)},
            {displacements, static_cast<std::size_t>(ranks)},
            type,
            staging.shapeOf(type)};
  }
  Side side(int rank) const { return {buffer, counts[rank], type}; }
  std::size_t bytes(int ranks) const {
    if (wrong(ranks)) return 0;
    std::size_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += static_cast<std::size_t>(counts[r]);
    return sum * shapeOf(type).size;
  }
};

inline bool rootWrong(int root, int ranks) { return root < 0 || root >= ranks; }

inline Reason erroneousIf(bool wrong) { return wrong ? Reason::erroneous : Reason::none; }

/// What a rank sends to itself it must receive whole.
inline void checkOwnBlock(std::size_t sent, std::size_t received) {
  if (sent != received)
    throw CallFailure{MPI_ERR_TRUNCATE, "this rank sends " + std::to_string(sent) +
                                            " bytes to itself and receives " +
                                            std::to_string(received)};
}

} // namespace rondo::compat
