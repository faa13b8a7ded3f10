// The memory access of the CUDA kernels' host runs: plain memory with a list of the ranges that may
// be accessed.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "support/test.h"

namespace rondo::test {

/// Throws where device code would fault, and where a kernel accesses memory outside its operands.
class CheckedAccess {
 public:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool writable;
  };
  /// The ranges that may be accessed from now on. Used by one thread at a time.
  static inline std::vector<Range> ranges;

  template <typename T>
  static T load(const std::byte* from) {
    check(from, sizeof(T), false);
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  template <typename T>
  static void store(std::byte* to, T value) {
    check(to, sizeof(T), true);
    std::memcpy(to, &value, sizeof(T));
  }

 private:
  static void check(const std::byte* at, std::size_t bytes, bool writes) {
    if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0)
      throw std::logic_error("misaligned access of " + std::to_string(bytes) + " bytes");
    for (const Range& range : ranges)
      if (at >= range.begin && at + bytes <= range.end && (range.writable || !writes)) return;
    throw std::logic_error(writes ? "write outside of the outputs"
                                  : "read outside of the operands");
  }
};

} // namespace rondo::test
