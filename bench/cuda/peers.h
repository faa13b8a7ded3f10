// What other libraries of the toolkit make of the same work, for the benchmark to stand beside.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "rondo/types.h"

namespace rondo {

/// Launches CUB's transform of 2, 4 or 8 inputs into their sum, on the default stream; empty where
/// the toolkit has none (before CUDA 12.8), and for types other than float32 and bfloat16. bfloat16
/// is added in fp32 and rounded once.
std::function<void()> cubSum(DataType type, const std::vector<const void*>& inputs, void* output,
                             std::size_t count);

} // namespace rondo
