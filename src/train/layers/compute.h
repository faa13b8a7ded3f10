// Where a network's layers run, and in what numbers.
#pragma once

#include <optional>
#include <string>

#include "train/layers/cudnn/module.h"
#include "train/layers/precision.h"

namespace rondo::training {

struct Compute {
  Compute(Precision of = Precision::float32) : precision(of) {}

  Precision precision;
  std::optional<int> gpu{}; ///< its number; none: the CPU
};

/// The GPU's layers, opened once per process. Any thread. Throws Error(unsupported), which says
/// what is missing, where this build or machine has none or no GPU that can be used.
const cudnn::Module& gpuLayers();

/// As options name device and precision. Ranks take the GPUs that they see in turn. Errors as of
/// requireTrainDevice() and requireTrainPrecision().
Compute computeOf(const std::string& device, const std::string& precision, int rank);

} // namespace rondo::training
