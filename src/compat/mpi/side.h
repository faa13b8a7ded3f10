// The send side or the receive side of a call that moves data.
#pragma once

#include <cstddef>
#include <cstring>

#include "compat/mpi/buffers.h"
#include "compat/mpi/communicators.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

/// Data are moved as bytes, whatever their type.
inline constexpr DataType kByte = DataType::uint8;

/// One buffer with count and type, as the program passed them.
struct Side {
  const void* buffer;
  std::ptrdiff_t count;
  MPI_Datatype type;

  bool inPlace() const { return buffer == MPI_IN_PLACE; }
  bool wrong() const { return count < 0 || type == MPI_DATATYPE_NULL || inPlace(); }

  /// The elements of `blocks` times the count.
  Elements elements(const Staging& staging, int blocks = 1) const {
    return {const_cast<void*>(buffer),
            static_cast<std::size_t>(count) * static_cast<std::size_t>(blocks), type,
            staging.shapeOf(type)};
  }
  std::size_t bytes() const { return wrong() ? 0 : bytesOf(static_cast<std::size_t>(count), type); }
};

/// Block `block` of this side: the elements that begin after `block` times the count.
inline Elements blockOf(const Side& side, const Elements& all, int block) {
  return {elementAt(all.buffer, side.count * block, all.shape),
          static_cast<std::size_t>(side.count), all.type, all.shape};
}

/// One side of a v-form, with one block for each rank.
struct Sides {
  const void* buffer;
  Table counts, displacements;
  MPI_Datatype type;

  bool inPlace() const { return buffer == MPI_IN_PLACE; }
  bool wrong(int ranks) const {
    return !counts || !displacements || type == MPI_DATATYPE_NULL || inPlace() ||
           counts.anyNegative(ranks);
  }
  ElementBlocks blocks(const Staging& staging, int ranks) const {
    return {const_cast<void*>(buffer), static_cast<std::size_t>(ranks), counts, displacements, type,
            staging.shapeOf(type)};
  }
  Side side(int rank) const { return {buffer, counts[rank], type}; }
  std::size_t bytes(int ranks) const {
    if (wrong(ranks)) return 0;
    std::size_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += static_cast<std::size_t>(counts[r]);
    return bytesOf(sum, type);
  }
};

/// Address of a rank's block if each block has `block` bytes.
inline std::byte* byteAt(void* buffer, std::size_t block, int rank) {
  return static_cast<std::byte*>(buffer) + static_cast<std::size_t>(rank) * block;
}

inline bool rootWrong(int root, int ranks) { return root < 0 || root >= ranks; }

inline Reason erroneousIf(bool wrong) { return wrong ? Reason::erroneous : Reason::none; }

/// MPICH's error for a rank whose own block begins at the same address on both sides: `before`
/// elements after the begin of the whole buffer. Open MPI accepts such calls.
inline int aliasError(const Counterpart& at, const Side& whole, std::ptrdiff_t before,
                      const Side& own) {
  if (kForOpenMpi || whole.inPlace() || own.inPlace() || whole.type != own.type ||
      whole.count == 0 || own.count == 0)
    return MPI_SUCCESS;
  const std::ptrdiff_t distance =
      static_cast<const std::byte*>(own.buffer) - static_cast<const std::byte*>(whole.buffer);
  const Shape shape = Staging(at.handle).shapeOf(own.type);
  const bool same = distance == before * static_cast<std::ptrdiff_t>(shape.size);
  return same ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

/// Address from which a gather reads the block that a rank sends to itself. `at` is its place in
/// Rondo's output, `place` its place in the program's. In place, or if the sizes differ, the block
/// is first brought to `at` and read there.
inline const void* ownBlock(const Side& send, const Elements& place, std::byte* at,
                            Staging& staging) {
  const Elements own = send.inPlace() ? place : send.elements(staging);
  if (!send.inPlace() && own.bytes() == place.bytes()) return staging.readable(own);
  if (at != place.buffer) staging.pack(place, at);
  if (send.inPlace()) return at;
  if (const std::size_t bytes = staging.keep(own.bytes(), place.bytes()); bytes > 0)
    std::memmove(at, staging.readable(own), bytes);
  return at;
}

/// Address at which a scatter writes the block that the root sends to itself. The block lies at
/// `at`, and stays there if the sizes differ; then it is delivered from there.
inline void* ownPlace(const Elements& own, std::byte* at, std::size_t sent, Staging& staging) {
  if (own.bytes() == sent) return staging.writable(own);
  staging.put(at, staging.keep(sent, own.bytes()), own);
  return at;
}

} // namespace rondo::compat
