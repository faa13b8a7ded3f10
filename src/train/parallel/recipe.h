// Derives what strategies have in common from the options of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rondo/gradients.h"
#include "rondo/train.h"
#include "train/layers/program.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"

namespace rondo::training {

/// Number of test samples in one forward pass. It does not depend on the number of ranks, so that
/// any number of ranks computes the same products.
inline constexpr std::size_t kTestBatch = 128;

OptimizerSettings optimizerSettings(const TrainOptions& options);

Schedule schedule(const TrainOptions& options, std::int64_t total_steps);

/// For a reducer whose gradients are scaled after the reduction, so it computes sums. Buckets keep
/// their first order: a new order after the first step would invalidate the state of hooks, and a
/// resumed run would have other buckets than a run without interruption.
GradientOptions reduction(const TrainOptions& options);

/// A pass of the step after the first `done` ones, with the statistics of each rank's own batch.
Pass passOf(const TrainOptions& options, std::int64_t done);
/// A pass with the statistics of the samples of all ranks if the options ask for them. `comm` must
/// outlive it.
Pass passOf(const TrainOptions& options, std::int64_t done, Communicator& comm);

/// Throws Error(invalid_argument) unless a batch has at least one sample for each of the `parts`
/// parts. The text calls the parts `what` ("ranks x accumulate").
void requireParts(const TrainOptions& options, std::int64_t parts, const std::string& what);

/// Throws Error(invalid_argument) if the optimizer needs whole weights and so cannot train slices
/// of them.
void requireSliceable(const TrainOptions& options);

} // namespace rondo::training
