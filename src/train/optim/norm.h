// Computes norms of gradients and limits them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "train/layers/weight.h"

namespace rondo::training {

/// Sum of the squares, in double. Every machine adds in the same order.
double squaredNorm(const float* values, std::size_t count);

/// Collective: adds doubles over the ranks that hold parts of the weights. Empty: each rank holds
/// whole weights.
using SumOverShards = std::function<void(std::span<double>)>;

struct Clipped {
  /// Norm of all gradients as one vector, each multiplied by the given scale.
  double norm;
  /// Scale for Optimizer::step() with which this norm is at most the limit.
  float scale;
};

/// Limits the norm of all gradients together. It reduces the scale only, so no pass over the
/// gradients writes them. Must be called after the reduction over ranks, so that every rank gets
/// the same result. If a gradient is not finite, `norm` is not finite either, and a step with this
/// scale makes weights NaN. (Pascanu, Mikolov, Bengio, 2013; as torch.nn.utils.clip_grad_norm_.)
Clipped clip(std::span<Weight* const> weights, float scale, double limit,
             const SumOverShards& sum_over_shards = {});

} // namespace rondo::training
