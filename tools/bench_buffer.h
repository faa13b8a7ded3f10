// A buffer with guards on both sides that show whether somebody wrote past its ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "rondo/communicator.h"

namespace rondo::tools {

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 256; ///< on each side
  static constexpr std::size_t kAlignment = 4096;

  GuardedBuffer() = default;
  /// `bytes` zeros, private to this process. data() is aligned to kAlignment.
  explicit GuardedBuffer(std::size_t bytes)
      : private_(static_cast<std::byte*>(
            ::operator new (kAlignment + bytes + kGuardBytes, std::align_val_t{kAlignment}))),
        memory_(private_.get()),
        bytes_(bytes) {
    std::memset(data(), 0, bytes);
    guard(bytes);
  }
  /// The same in memory that the ranks of `comm` read in place.
  GuardedBuffer(std::size_t bytes, Communicator& comm)
      : mapped_(comm.allocate(kAlignment + bytes + kGuardBytes)),
        memory_(static_cast<std::byte*>(mapped_.data())),
        bytes_(bytes) {
    guard(bytes);
  }

  std::byte* data() const { return memory_ + kAlignment; }
  std::size_t bytes() const { return bytes_; }

  /// Writes the guards around the first `used` bytes. Bytes behind them stay as they are.
  void guard(std::size_t used) const {
    std::memset(data() - kGuardBytes, kMark, kGuardBytes);
    std::memset(data() + used, kMark, kGuardBytes);
  }
  /// Bytes of the guards around the first `used` bytes that changed since guard(used).
  std::size_t damaged(std::size_t used) const {
    const auto changed = [](std::byte b) { return b != std::byte{kMark}; };
    const std::byte* before = data() - kGuardBytes;
    const std::byte* behind = data() + used;
    return static_cast<std::size_t>(std::count_if(before, before + kGuardBytes, changed) +
                                    std::count_if(behind, behind + kGuardBytes, changed));
  }

 private:
  static constexpr unsigned char kMark = 0xa5;
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<std::byte, Free> private_;
  Buffer mapped_;
  std::byte* memory_ = nullptr; ///< of one of them
  std::size_t bytes_ = 0;
};

} // namespace rondo::tools
