// Which parameters travel together: from sizes, types and an order to buckets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rondo/gradients.h"

namespace rondo::gradients {

/// Parameters of a bucket begin at multiples of so many bytes, as vector code likes them.
inline constexpr std::size_t kAlignment = 64;

/// Buckets in the order in which they become full when the parameters of `order` become ready one
/// after the other. Each holds parameters of one type; it is closed by the parameter with which it
/// reaches its cap: caps[0] for the first bucket of a type, and so on, the last for all others.
///
/// PyTorch's DDP fills buckets in the order of definition, and turns the list of buckets round;
/// here the parameters are turned round, so that the first, small bucket is the first to start.
std::vector<GradientBucket> assignBuckets(std::span<const Parameter> parameters,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> caps);

} // namespace rondo::gradients
