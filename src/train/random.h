// Random numbers that are the same on every machine: integer arithmetic only.
#pragma once

#include <cstdint>

#include "rondo/detail/hash.h"

namespace rondo::training {

/// SplitMix64. Different seeds give unrelated sequences.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += detail::kGoldenRatio;
    return detail::finish(state_);
  }

  /// Returns a number in [0, bound); the bias is below bound / 2^32.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

  /// Returns a number in [-1, 1), a multiple of 2^-52, so it is exact in double.
  double symmetric() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1.0; }

 private:
  std::uint64_t state_;
};

} // namespace rondo::training
