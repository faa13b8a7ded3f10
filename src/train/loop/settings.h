// A training run's settings: what is refused, what all ranks must have alike, and their data.
#pragma once

#include <string>

#include "rondo/train.h"
#include "train/data/dataset.h"

namespace rondo::training {

/// Throws Error(invalid_argument) that names the option that makes no sense.
void check(const TrainOptions& options, int ranks);

/// Throws Error(data) that names the file; Error(invalid_argument) where there are fewer samples
/// than a step takes.
Data load(const TrainOptions& options);

/// What must be equal on all ranks, one "name value" a line. Not the folder: only what is in it
/// counts.
std::string describe(const TrainOptions& options, const Data& data);

} // namespace rondo::training
