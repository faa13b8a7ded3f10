// The same operations by other libraries of the CUDA toolkit, for comparison.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "rondo/types.h"

namespace rondo {

/// Returns a function that launches CUB's transform of 2, 4 or 8 inputs into their sum, on the
/// default stream. It is empty if the toolkit does not have it (before CUDA 12.8), and for types
/// other than float32 and bfloat16. bfloat16 is added in fp32 and rounded once.
std::function<void()> cubSum(DataType type, const std::vector<const void*>& inputs, void* output,
                             std::size_t count);

} // namespace rondo
