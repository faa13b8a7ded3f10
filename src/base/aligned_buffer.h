// Memory aligned for vector instructions and cache lines.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "rondo/error.h"

namespace rondo::base {

/// Scratch memory. It grows on demand, never shrinks, and is not initialised. One thread at a time.
class AlignedBuffer {
 public:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kPage = 4096;

  /// `alignment` is a power of two.
  explicit AlignedBuffer(std::size_t bytes = 0, std::size_t alignment = kCacheLine)
      : memory_(nullptr, Release{alignment}) {
    reserve(bytes);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

  /// Returns at least `bytes` of memory. If the buffer has to grow, its contents are lost and
  /// pointers into it become invalid. Throws Error(system); the buffer then stays as it was.
  std::byte* reserve(std::size_t bytes) {
    if (bytes <= size_) return data();
    const std::size_t alignment = memory_.get_deleter().alignment;
    const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
    void* fresh = padded < bytes
                      ? nullptr
                      : ::operator new(padded, std::align_val_t(alignment), std::nothrow);
    if (fresh == nullptr) {
      throw Error(ErrorCode::system,
                  "cannot allocate " + std::to_string(bytes) + " bytes of scratch memory");
    }
    memory_.reset(static_cast<std::byte*>(fresh));
    size_ = padded;
    return data();
  }

 private:
  struct Release {
    std::size_t alignment;
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(alignment));
    }
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::size_t size_ = 0;
};

} // namespace rondo::base
