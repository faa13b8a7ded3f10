// Checks the options of a training run, loads its data, and lists the settings.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rondo/train.h"
#include "train/data/dataset.h"

namespace rondo::training {

/// Throws Error(invalid_argument), which names the invalid option, and Error(unsupported) for a
/// device that is not available.
void check(const TrainOptions& options, int ranks);

/// Throws Error(data), which names the file, and Error(invalid_argument) if there are not enough
/// samples for one step per epoch.
Data load(const TrainOptions& options);

/// Steps of one epoch, and of the whole run.
int epochSteps(const TrainOptions& options, const Data& data);
std::int64_t totalSteps(const TrainOptions& options, const Data& data);
/// Samples that the first `steps` steps of a run take.
std::int64_t samplesOf(std::int64_t steps, const TrainOptions& options, const Data& data);

/// Names and values.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Settings that must be equal in a checkpoint and in the run that resumes it, one "name value" per
/// line. Data are compared by their contents, so the folder may change.
std::string identity(const TrainOptions& options, const Data& data);

/// Settings that must be equal on all ranks, one "name value" per line.
std::string describe(const TrainOptions& options, const Data& data);

/// The settings for people, each name only once.
Settings shown(const TrainOptions& options, const Data& data);

} // namespace rondo::training
