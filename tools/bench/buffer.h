// A buffer with guards on both sides that reveal writes past its ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "rondo/communicator.h"
#include "tools/gpu.h"

namespace rondo::tools {

/// The error of a buffer that is too large.
class BufferTooLarge : public std::bad_alloc {
 public:
  explicit BufferTooLarge(std::size_t bytes)
      : text_("memory ran out for a buffer of " + std::to_string(bytes) +
              " bytes (each rank has two); measure smaller sizes (-e) or fewer ranks") {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 256; ///< on each side
  static constexpr std::size_t kAlignment = 4096;

  GuardedBuffer() = default;
  /// `bytes` zeros in memory private to this process. data() is aligned to kAlignment.
  explicit GuardedBuffer(std::size_t bytes)
      : private_(allocated(kAlignment + bytes + kGuardBytes)),
        memory_(private_.get()),
        bytes_(bytes) {
    std::memset(data(), 0, bytes);
    guard(bytes);
  }
  /// The same, in memory that the ranks of `comm` read in place.
  GuardedBuffer(std::size_t bytes, Communicator& comm)
      : mapped_(comm.allocate(kAlignment + bytes + kGuardBytes)),
        memory_(static_cast<std::byte*>(mapped_.data())),
        bytes_(bytes) {
    guard(bytes);
  }
  /// The same on a GPU: address() is there, and data() is a copy in host memory. upload() and
  /// download() copy between them.
  GuardedBuffer(std::size_t bytes, std::shared_ptr<Gpu> gpu) : GuardedBuffer(bytes) {
    gpu_ = std::move(gpu);
    on_gpu_ = gpu_->allocate(kAlignment + bytes + kGuardBytes);
  }

  std::byte* data() const { return memory_ + kAlignment; }
  std::byte* address() const { return on_gpu_ ? on_gpu_.get() + kAlignment : data(); }
  std::size_t bytes() const { return bytes_; }

  /// Copies the first `used` bytes with their guards. Does nothing for a buffer in host memory.
  void upload(std::size_t used) const {
    if (gpu_) gpu_->copy(address() - kGuardBytes, data() - kGuardBytes, used + 2 * kGuardBytes);
  }
  void download(std::size_t used) const {
    if (gpu_) gpu_->copy(data() - kGuardBytes, address() - kGuardBytes, used + 2 * kGuardBytes);
  }

  /// Writes the guards around the first `used` bytes. The bytes after them do not change.
  void guard(std::size_t used) const {
    std::memset(data() - kGuardBytes, kMark, kGuardBytes);
    std::memset(data() + used, kMark, kGuardBytes);
  }
  /// Number of guard bytes around the first `used` bytes that changed since guard(used).
  std::size_t damaged(std::size_t used) const {
    const auto changed = [](std::byte b) { return b != std::byte{kMark}; };
    const std::byte* before = data() - kGuardBytes;
    const std::byte* behind = data() + used;
    return static_cast<std::size_t>(std::count_if(before, before + kGuardBytes, changed) +
                                    std::count_if(behind, behind + kGuardBytes, changed));
  }

 private:
  static std::byte* allocated(std::size_t bytes) {
    try {
      return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}));
    } catch (const std::bad_alloc&) {
      throw BufferTooLarge(bytes);
    }
  }
  static constexpr unsigned char kMark = 0xa5;
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<std::byte, Free> private_;
  Buffer mapped_;
  std::byte* memory_ = nullptr; ///< private_ or mapped_
  std::size_t bytes_ = 0;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<std::byte> on_gpu_;
};

} // namespace rondo::tools
