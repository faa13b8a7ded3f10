// Lengths of gradients, and the limit that is put on them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "train/layers/weight.h"

namespace rondo::training {

/// Sum of the squares, in double: every machine adds in the same order.
double squaredNorm(const float* values, std::size_t count);

/// Adds up doubles over the ranks that hold parts of the weights; collective. Empty: a rank holds
/// whole weights.
using SumOverShards = std::function<void(std::span<double>)>;

struct Clipped {
  double norm; ///< of all gradients as one vector, each multiplied by the scale that was given
  float scale; ///< for Optimizer::step(), so that this norm is at most the limit
};

/// Limits the norm of all gradients together, without a pass that writes them: only the scale
/// becomes smaller. For the sums over all ranks, behind their reduction: then every rank finds the
/// same. Where a gradient is not finite, neither is `norm`, and a step with this scale makes
/// weights NaN. (Pascanu, Mikolov, Bengio, 2013; as torch.nn.utils.clip_grad_norm_.)
Clipped clip(std::span<Weight* const> weights, float scale, double limit,
             const SumOverShards& sum_over_shards = {});

} // namespace rondo::training
