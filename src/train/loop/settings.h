// A training run's settings: what is refused, what all ranks must have alike, and their data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rondo/train.h"
#include "train/data/dataset.h"

namespace rondo::training {

/// Throws Error(invalid_argument) that names the option that makes no sense, Error(unsupported) for
/// a device that there is not.
void check(const TrainOptions& options, int ranks);

/// Throws Error(data) that names the file; Error(invalid_argument) where there are fewer samples
/// than the one step that an epoch must have.
Data load(const TrainOptions& options);

/// The steps of an epoch, and of the whole run.
int epochSteps(const TrainOptions& options, const Data& data);
std::int64_t totalSteps(const TrainOptions& options, const Data& data);
/// The samples that so many steps take from a run's beginning on.
std::int64_t samplesOf(std::int64_t steps, const TrainOptions& options, const Data& data);

/// Names and values.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// What a run cannot go on without, one "name value" a line. Not the folder: only what is in it
/// counts.
std::string identity(const TrainOptions& options, const Data& data);

/// What must be equal on all ranks, that and more: also one "name value" a line.
std::string describe(const TrainOptions& options, const Data& data);

/// The same for people: no name is there twice.
Settings shown(const TrainOptions& options, const Data& data);

} // namespace rondo::training
