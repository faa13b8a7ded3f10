// Powers that are the same on every machine, which a mathematics library does not promise.
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
