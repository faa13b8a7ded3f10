// Adds arrays of floats, such as the gradients of micro-batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace rondo::training {

inline void add(float* to, const float* from, std::size_t count) {
  std::transform(to, to + count, from, to, std::plus<>());
}

} // namespace rondo::training
