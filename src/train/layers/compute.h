// Where a network's layers run, and in what numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/layers/cudnn/module.h"
#include "train/layers/precision.h"

namespace rondo::training {

struct Compute {
  Compute(Precision of = Precision::float32) : precision(of) {}

  Precision precision;
  std::optional<cudnn::Gpu> gpu{}; ///< none: the CPU
};

/// The GPU's layers, opened once per process. Any thread. Throws Error(unsupported), which says
/// what is missing, where this build or machine has none or no GPU that can be used.
const cudnn::Module& gpuLayers();

/// As options name device and precision, for the rank with this number among those of its machine.
/// On a GPU, nothing is waited for longer than RONDO_TIMEOUT. Errors as of requireTrainDevice(),
/// requireTrainPrecision() and gpuOf().
Compute computeOf(const std::string& device, const std::string& precision, int local_rank);
/// The same for a rank of these; collective where the device is "cuda".
Compute computeOf(const std::string& device, const std::string& precision, Communicator& comm);

/// The GPU of a rank that sees so many: `named` (RONDO_DEVICE), or where that is below 0 the ranks
/// of a machine take theirs in turn. Throws Error(invalid_argument) where there is no such GPU.
int gpuOf(int gpus, int named, int local_rank);

/// How many ranks before this one are on its machine, by what all say of theirs.
int localRank(const std::vector<std::vector<std::byte>>& machines, int rank);

} // namespace rondo::training
