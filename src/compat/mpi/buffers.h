// From MPI's buffers, counts and datatypes to plain bytes, and back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
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

/// Element `displacement` of the buffer.
inline void* elementAt(void* buffer, std::ptrdiff_t displacement, const Shape& shape) {
  // As a number: with MPI_BOTTOM there is no object that the address lies in.
  return reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(buffer) +
                                 displacement * shape.extent);
}

/// Blocks of elements as the v-forms of MPI give them; displacements are in elements.
struct ElementBlocks {
  void* buffer;
  std::span<const int> counts, displacements;
  MPI_Datatype type;
  Shape shape;

  Elements elements(std::size_t rank) const {
    return {elementAt(buffer, displacements[rank], shape), static_cast<std::size_t>(counts[rank]),
            type, shape};
  }
};

/// The memory between the program's buffers and Rondo's calls, and what is left to do at the end of
/// a call. Data that lie plainly in the program's buffer are used where they are, unless the call
/// is set apart. One thread at a time. The functions throw MpiFailure, and CallFailure for single
/// elements beyond 2 GiB that do not lie plainly.
class Staging {
 public:
  /// `comm`: whose error handler MPI's own errors go to.
  explicit Staging(MPI_Comm comm) : comm_(comm) {}
  ~Staging() {
    if (!deliveries_.empty()) release();
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// As the free function, for types that MPI lets calls use: committed ones.
  Shape shapeOf(MPI_Datatype type) const;

  /// Begins anew with a call that cannot be made on the program's buffers, for they overlap: from
  /// here on all data have memory of their own.
  void setApart() {
    release();
    apart_ = true;
  }
  /// This rank's call is wrong in a way that the other ranks do not see: it is made all the same,
  /// so that they do not wait for it, and then finish() throws this.
  void blame(int error_class, std::string sentence);
  /// How much of a block a rank sends to itself: what there is room for. More is
  /// MPI_ERR_TRUNCATE for this rank.
  std::size_t keep(std::size_t sent, std::size_t received);

  /// Where the bytes of these elements can be read.
  const void* readable(const Elements& elements) {
    return elements.shape.plain && !apart_ ? elements.buffer : copied(elements);
  }
  /// Where they can be written: finish() brings them to the program's buffer.
  void* writable(const Elements& elements) {
    return elements.shape.plain && !apart_ ? elements.buffer : delivered(elements);
  }
  /// As writable(), always in memory of its own.
  void* delivered(const Elements& elements);
  /// A copy of the elements' bytes.
  const void* copied(const Elements& elements);

  ByteBlocks readable(const ElementBlocks& blocks);
  ByteBlocks writable(const ElementBlocks& blocks);
  /// As readable(), always in memory of its own.
  ByteBlocks copied(const ElementBlocks& blocks);

  /// As many blocks of another size, filled as far as keep() says.
  const void* resized(const void* blocks, std::size_t from, std::size_t to, int count);

  /// Puts the elements' bytes at `to`.
  void pack(const Elements& elements, std::byte* to) const;
  /// Puts the first `bytes` bytes of the elements where they belong, now.
  void put(const std::byte* from, std::size_t bytes, const Elements& elements);

  /// After success of the call. Throws what the rank is to blame for.
  void finish() {
    if (!deliveries_.empty() || blame_) deliver();
  }
  /// Nothing is left but the memory of this object. Calls MPI, if there was something to deliver.
  void release() noexcept;

 private:
  struct Delivery {
    Elements to;
    const std::byte* from;
    bool copy; ///< plain bytes
  };
  std::byte* memory(std::size_t bytes);
  bool missing(const Elements& elements);
  void deliverLater(Elements to, const std::byte* from);
  void unpack(const std::byte* from, const Elements& elements) const;
  ByteBlocks dense(const ElementBlocks& blocks);
  void deliver() const;

  MPI_Comm comm_;
  std::vector<Bytes> memory_;
  std::vector<Delivery> deliveries_;
  std::unique_ptr<CallFailure> blame_;
  bool apart_ = false;
};

} // namespace rondo::compat
