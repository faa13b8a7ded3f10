// The words with which two devices test that they can access each other's memory: a kernel stores
// them on one side, and a kernel loads them on the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::device {

inline constexpr std::size_t kProbeWords = 8;
using ProbeWords = std::array<std::uint64_t, kProbeWords>;

/// The argument of the test kernel, which runs as one block of kProbeWords threads. A null pointer:
/// that part is skipped.
struct Probe {
  std::uint64_t words[kProbeWords] = {};
  std::uint64_t* to = nullptr;         ///< destination of `words`
  const std::uint64_t* from = nullptr; ///< source of a load
  std::uint64_t* seen = nullptr;       ///< host memory for the loaded words
};

} // namespace rondo::device
