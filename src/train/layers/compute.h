// Chooses the device and the precision that layers compute with.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rondo/communicator.h"
#include "train/layers/cudnn/module.h"
#include "train/layers/onednn/module.h"
#include "train/layers/precision.h"

namespace rondo::training {

struct Compute {
  Compute(Precision of = Precision::float32) : precision(of) {}

  Precision precision;
  std::optional<cudnn::Gpu> gpu{}; ///< empty: the CPU
};

/// The backends, each loaded once per process. Any thread. Throw Error(unsupported), which names
/// the reason, if this build does not have it, its libraries are not installed, or, for GPUs, this
/// machine has no usable one.
const onednn::Module& cpuLayers();
const cudnn::Module& gpuLayers();
/// Returns whether cpuLayers() would return.
bool haveCpuLayers();

/// Device and precision as named by options, for the rank with this number among the ranks of its
/// machine. On a GPU no wait takes longer than RONDO_TIMEOUT. Throws the errors of
/// requireTrainDevice() and gpuOf().
Compute computeOf(const std::string& device, const std::string& precision, int local_rank);
/// The same for this rank of a communicator; collective if the device is "cuda".
Compute computeOf(const std::string& device, const std::string& precision, Communicator& comm);

/// The GPU of a rank that sees `gpus` GPUs: `named` (RONDO_DEVICE) if it is 0 or more, otherwise
/// the ranks of a machine use the GPUs in turn. Throws Error(invalid_argument) if there is no such
/// GPU.
int gpuOf(int gpus, int named, int local_rank);

/// How many ranks before this one have the same entry in `machines`.
int localRank(const std::vector<std::vector<std::byte>>& machines, int rank);

} // namespace rondo::training
