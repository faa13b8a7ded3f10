// Memory that the other processes of this machine read where it stands.
#pragma once

#include <cstddef>
#include <memory>

#include "rondo/export.h"

namespace rondo {

namespace comm {
class CommunicatorImpl;
class Region;
} // namespace comm

/// A range of memory that collectives need not copy for peers on the same machine: they read it in
/// place, as threads of one process always do with each other's memory. Any call may use any part
/// of it, on any communicator, and mix it with other memory; results are the same.
///
/// Made by Communicator::allocate() or registerBuffer(), or here without one. Only what is read by
/// peers gains: inputs, and outputs that algorithms pass on.
///
/// A child that fork() makes has a private copy under the same address, as of any other memory, and
/// what it writes stays its own. Unlike other memory, pages that the child has not written may show
/// what the parent writes there later. The child may release its copy, and keeps what it has when
/// the parent does.
class RONDO_API Buffer {
 public:
  Buffer();
  /// As Communicator::allocate(), for a program that has no communicator yet; no calls are looked
  /// for when it is released.
  static Buffer allocate(std::size_t bytes);
  ~Buffer(); ///< As release(); where that would throw it logs the error, and the memory stays.
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;

  void* data() const;
  std::size_t size() const; ///< bytes

  /// allocate(): frees the memory. registerBuffer(): makes it private memory again, with its
  /// contents. Throws Error(invalid_argument) that names the call when one of the communicator that
  /// made it is using it; then nothing has happened. Calls of other communicators are not looked
  /// for.
  void release();

 private:
  friend class comm::CommunicatorImpl;
  Buffer(std::shared_ptr<comm::CommunicatorImpl> communicator,
         std::unique_ptr<comm::Region> region);
  std::shared_ptr<comm::CommunicatorImpl> communicator_;
  std::unique_ptr<comm::Region> region_;
};

} // namespace rondo
