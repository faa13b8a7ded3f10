// Integer powers that are the same on every machine; std::pow does not guarantee that.
#pragma once

#include <cstdint>

namespace rondo::training {

constexpr double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if ((exponent & 1) != 0) result *= base;
  return result;
}

} // namespace rondo::training
