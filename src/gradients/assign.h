// Assigns parameters to gradient buckets, by their sizes, types and an order.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Parameters of a bucket begin at multiples of this many bytes, for vector instructions.
inline constexpr std::size_t kAlignment = 64;

/// Returns buckets in the order in which they become full when parameters become ready in the given
/// `order`. A bucket holds parameters of one type. It is closed when its bytes reach the cap:
/// caps[0] for the first bucket of a type, and so on; the last entry is for all others.
///
/// PyTorch's DDP fills buckets in the order of definition and then reverses the list of buckets.
/// Here the caller reverses the order of parameters instead, so the first bucket, which is small,
/// is also the first to start.
std::vector<GradientBucket> assignBuckets(std::span<const Parameter> parameters,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> caps);

} // namespace rondo::gradients
