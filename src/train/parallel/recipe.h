// Derives optimizer settings and schedule from the options of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rondo/train.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"

namespace rondo::training {

/// Number of test samples in one forward pass. It does not depend on the number of ranks, so that
/// any number of ranks computes the same products.
inline constexpr std::size_t kTestBatch = 128;

OptimizerSettings optimizerSettings(const TrainOptions& options);

Schedule schedule(const TrainOptions& options, std::int64_t total_steps);

/// Throws Error(invalid_argument) unless a batch has at least one sample for each of the `parts`
/// parts. The text calls the parts `what` ("ranks x accumulate").
void requireParts(const TrainOptions& options, std::int64_t parts, const std::string& what);

/// Throws Error(invalid_argument) if the optimizer needs whole weights and so cannot train slices
/// of them.
void requireSliceable(const TrainOptions& options);

} // namespace rondo::training
