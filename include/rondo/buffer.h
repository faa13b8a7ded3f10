// Buffer: memory that peers on the same machine read in place, without a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "rondo/export.h"

namespace rondo {

namespace comm {
class CommunicatorImpl;
class Region;
} // namespace comm

/// A range of memory that collectives need not copy for peers on the same machine: the peers read
/// it in place, as threads of one process always do. Any call, on any communicator, may use any
/// part of it together with other memory; results are the same.
///
/// Made by Communicator::allocate(), by registerBuffer(), or by allocate() below. It may outlive
/// its communicator. Only memory that peers read benefits: inputs, and outputs that an algorithm
/// passes on.
///
/// After fork(), the child has the memory at the same address. The parent never sees what the child
/// writes. A page that the child has not written yet may show what the parent writes later; this
/// differs from other memory. The child may release its Buffer; it keeps the memory if the parent
/// releases the buffer.
class RONDO_API Buffer {
 public:
  Buffer(); ///< empty: data() is null, and size() is 0
  /// Does what Communicator::allocate() does, for a program that has no communicator yet. Its
  /// release() cannot detect calls that still use the buffer. Throws Error(system).
  static Buffer allocate(std::size_t bytes);
  ~Buffer(); ///< Does what release() does; on an error it logs the error, and the memory stays.
  Buffer(Buffer&&) noexcept;            ///< the source is then empty
  Buffer& operator=(Buffer&&) noexcept; ///< swaps

  void* data() const;       ///< null if the Buffer is empty
  std::size_t size() const; ///< bytes

  /// Frees the memory of allocate(). Makes the memory of registerBuffer() private again, with its
  /// contents; if another Buffer has the same memory, only empties this one. Otherwise, if a call
  /// still uses the memory, throws Error(invalid_argument) that names the call, and changes
  /// nothing. Two kinds of calls are not detected: for memory of allocate(), those of other
  /// communicators; and small blocking calls that another thread is just making.
  void release();

 private:
  friend class comm::CommunicatorImpl;
  Buffer(std::weak_ptr<comm::CommunicatorImpl> communicator, std::shared_ptr<comm::Region> region);
  std::weak_ptr<comm::CommunicatorImpl> communicator_;
  std::shared_ptr<comm::Region> region_;
};

} // namespace rondo
