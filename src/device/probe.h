// What proves that two devices see each other's memory: words that a kernel stores at one end, and
// one loads at the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::device {

inline constexpr std::size_t kProbeWords = 8;
using ProbeWords = std::array<std::uint64_t, kProbeWords>;

/// The argument of the kernel that probes, in a block of kProbeWords threads. Null: not done.
struct Probe {
  std::uint64_t words[kProbeWords] = {};
  std::uint64_t* to = nullptr;         ///< gets the words
  const std::uint64_t* from = nullptr; ///< is read
  std::uint64_t* seen = nullptr;       ///< host memory: what was read
};

} // namespace rondo::device
