// The access that the host runs of the CUDA kernels use: plain memory that knows what it may touch.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "support/test.h"

namespace rondo::test {

/// Throws where device code would fault, or where a kernel reads or writes what is not its own.
class CheckedAccess {
 public:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool writable;
  };
  /// All that may be touched from now on. One thread uses it at a time.
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
