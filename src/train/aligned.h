// Arrays that start on a cache line. The order in which a matrix product sums may depend on the
// alignment of its operands, so all ranks must have the same alignment.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace rondo::training {

inline constexpr std::size_t kAlignment = 64;

template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kAlignment)));
  }
  void deallocate(T* pointer, std::size_t) {
    ::operator delete(pointer, std::align_val_t(kAlignment));
  }
  bool operator==(const AlignedAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

/// Zeroed memory that starts on a cache line. memset is faster than the constructor of a vector,
/// which sets each byte by itself.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size)
      : memory_(AlignedAllocator<std::byte>().allocate(size)), size_(size) {
    std::memset(memory_.get(), 0, size);
  }

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      AlignedAllocator<std::byte>().deallocate(memory, 0);
    }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

} // namespace rondo::training
