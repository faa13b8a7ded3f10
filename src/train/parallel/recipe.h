// What strategies read from a run's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rondo/train.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"

namespace rondo::training {

/// Test samples of one forward pass. The same for any number of ranks, so that all of them compute
/// the same products.
inline constexpr std::size_t kTestBatch = 128;

OptimizerSettings optimizerSettings(const TrainOptions& options);

Schedule schedule(const TrainOptions& options, std::int64_t total_steps);

/// Throws Error(invalid_argument) unless a batch has at least one sample for each of so many parts,
/// which are called `what` ("ranks x accumulate").
void requireParts(const TrainOptions& options, std::int64_t parts, const std::string& what);

/// For slices of weights: throws Error(invalid_argument) for the optimizer that needs whole ones.
void requireSliceable(const TrainOptions& options);

} // namespace rondo::training
