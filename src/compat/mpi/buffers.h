// Converts MPI's buffers, counts and datatypes to bytes, and back.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "compat/mpi/datatypes.h"
#include "compat/mpi/errors.h"
#include "compat/mpi/mpi_library.h"
#include "rondo/communicator.h"

namespace rondo::compat {

using Bytes = std::unique_ptr<std::byte[]>;

/// Elements in a buffer of the program.
struct Elements {
  void* buffer;
  std::size_t count;
  MPI_Datatype type;
  Shape shape;

  std::size_t bytes() const { return count * shape.size; }
};

/// Blocks of bytes, one for each rank.
struct ByteBlocks {
  std::byte* base = nullptr;
  std::vector<std::size_t> counts, offsets;
  Blocks view() const { return {counts, offsets}; }
  std::byte* block(int rank) const { return base + offsets[static_cast<std::size_t>(rank)]; }
};

/// Address of element `displacement` of the buffer.
inline void* elementAt(void* buffer, std::ptrdiff_t displacement, const Shape& shape) {
  // Computed as a number, since with MPI_BOTTOM the address is in no object.
  // The displacement of an empty block may be any number.
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(buffer) +
                                 static_cast<std::uintptr_t>(displacement) *
                                     static_cast<std::uintptr_t>(shape.extent));
}

/// One number for each rank, as the program passed them: int, and in the large-count forms
/// MPI_Count or MPI_Aint.
class Table {
 public:
  template <std::signed_integral Number>
  Table(const Number* first) : first_(first), large_(sizeof(Number) > sizeof(int)) {
    static_assert(sizeof(Number) == sizeof(int) || sizeof(Number) == sizeof(std::int64_t));
  }
  explicit operator bool() const { return first_; }
  bool operator==(const Table&) const = default;
  std::ptrdiff_t operator[](std::integral auto rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return static_cast<std::ptrdiff_t>(large_ ? number<std::int64_t>(at) : number<int>(at));
  }
  bool anyNegative(int ranks) const {
    for (int r = 0; r < ranks; ++r)
      if ((*this)[r] < 0) return true;
    return false;
  }
  bool allEqual(int ranks) const {
    for (int r = 1; r < ranks; ++r)
      if ((*this)[r] != (*this)[0]) return false;
    return true;
  }

 private:
  /// MPI_Count and MPI_Aint may be other types of the same size.
  template <class Number>
  Number number(std::size_t at) const {
    Number result;
    std::memcpy(&result, static_cast<const std::byte*>(first_) + at * sizeof result, sizeof result);
    return result;
  }

  const void* first_;
  bool large_;
};

/// Blocks of elements as in MPI's v-forms; displacements are in elements.
struct ElementBlocks {
  void* buffer;
  std::size_t ranks;
  Table counts, displacements;
  MPI_Datatype type;
  Shape shape;

  Elements elements(std::size_t rank) const {
    return {elementAt(buffer, displacements[rank], shape), static_cast<std::size_t>(counts[rank]),
            type, shape};
  }
};

/// Memory between the program's buffers and Rondo's calls, and the work that is left for the end of
/// a call. Contiguous data are used in the program's buffer, unless setApart() was called. One
/// thread at a time. The functions throw MpiFailure, and CallFailure for a single element that is
/// above 2 GiB and not contiguous, if the MPI library has no MPI_Pack_c.
class Staging {
 public:
  /// `comm`: the communicator whose error handler gets the MPI library's own errors.
  explicit Staging(MPI_Comm comm) : comm_(comm) {}
  ~Staging() {
    if (used_) release();
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Does what compat::shapeOf() does, for types that MPI allows in calls: committed ones.
  Shape shapeOf(MPI_Datatype type) const {
    const Predefined* const known = predefined_types.find(type);
    return known ? compat::shapeOf(*known) : shapeOfCommitted(type);
  }

  /// The call has begun, and goes on after its MPI_I... function returns. The program may free the
  /// communicator and the types before the call ends: from here on errors of the MPI library go to
  /// MPI_COMM_SELF, and types of this object's own describe the data.
  void letGo();

  /// Starts again with a call that cannot use the program's buffers, because they overlap: from
  /// here on all data have memory of their own.
  void setApart() {
    release();
    apart_ = true;
  }
  /// Notes that this rank's call is wrong in a way that the other ranks do not see. The call is
  /// made nevertheless, so that they do not wait for it; finish() then throws this error.
  void blame(int error_class, std::string sentence);
  /// Number of bytes of its own block that a rank sends to itself: as many as fit. If some do not,
  /// this rank gets MPI_ERR_TRUNCATE.
  std::size_t keep(std::size_t sent, std::size_t received);

  /// Address at which the bytes of these elements can be read.
  const void* readable(const Elements& elements) {
    return elements.shape.plain && !apart_ ? elements.buffer : copied(elements);
  }
  /// Address at which they can be written; finish() copies them to the program's buffer.
  void* writable(const Elements& elements) {
    return elements.shape.plain && !apart_ ? elements.buffer : delivered(elements);
  }
  /// Does what writable() does, but always returns separate memory.
  void* delivered(const Elements& elements);
  /// Returns a copy of the elements' bytes.
  const void* copied(const Elements& elements);

  ByteBlocks readable(const ElementBlocks& blocks);
  ByteBlocks writable(const ElementBlocks& blocks);
  /// Does what readable() does, but always returns separate memory.
  ByteBlocks copied(const ElementBlocks& blocks);

  /// Copies `count` blocks of `from` bytes into blocks of `to` bytes, each as far as keep() allows.
  const void* resized(const void* blocks, std::size_t from, std::size_t to, int count);

  /// Copies the elements' bytes to `to`.
  void pack(const Elements& elements, std::byte* to) const;
  /// Copies `bytes` bytes into the first part of the elements in the program's buffer, at once.
  void put(const std::byte* from, std::size_t bytes, const Elements& elements);

  /// Call it after the call has succeeded. Throws the error that this rank is to blame for.
  void finish() {
    if (used_) deliver();
  }
  /// Frees everything but this object itself. Calls MPI if there was something to deliver.
  void release() noexcept;

 private:
  struct Delivery {
    Elements to;
    const std::byte* from;
    bool own_type = false; ///< to be freed
  };
  struct Used {
    std::vector<Bytes> memory;
    std::vector<Delivery> deliveries;
    std::unique_ptr<CallFailure> blame;
  };
  Shape shapeOfCommitted(MPI_Datatype type) const;
  Used& used() {
    if (!used_) used_ = std::make_unique<Used>();
    return *used_;
  }
  std::byte* memory(std::size_t bytes);
  bool missing(const Elements& elements);
  void deliverLater(const Elements& to, const std::byte* from);
  void unpack(const std::byte* from, const Elements& elements) const;
  ByteBlocks dense(const ElementBlocks& blocks);
  void deliver() const;

  MPI_Comm comm_;
  std::unique_ptr<Used> used_; ///< null in most calls, whose data stay in the program's buffers
  bool apart_ = false;
};

} // namespace rondo::compat
