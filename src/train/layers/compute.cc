#include "train/layers/compute.h"

#include <dlfcn.h>

#include <algorithm>
#include <span>

#include "base/read_file.h"
#include "rondo/error.h"
#include "rondo/options.h"
#include "rondo/train.h"

namespace rondo::training {

namespace {

struct Opened {
  const cudnn::Module* module = nullptr;
  int devices = 0;
  std::string why;
};

Opened open() {
  Opened opened{.why = RONDO_CUDNN_MISSING};
  if (!opened.why.empty()) return opened;
  // The loader finds the plain name by the library paths of the program and of this library. The
  // module is never closed.
  void* const file = ::dlopen(cudnn::kModuleFile, RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    opened.why = ::dlerror();
    return opened;
  }
  const auto start = reinterpret_cast<cudnn::StartFunction>(::dlsym(file, cudnn::kModuleSymbol));
  if (start) opened.module = start();
  else opened.why = std::string(cudnn::kModuleFile) + " is of another version";
  if (start) opened.devices = opened.module->devices(opened.why);
  return opened;
}

/// A string that is equal for all processes of a machine, also in different containers. Empty if it
/// cannot be read: then all ranks count as being on one machine.
std::string bootId() { return base::firstLine("/proc/sys/kernel/random/boot_id"); }

const Opened& opened() {
  static const Opened once = open();
  if (once.devices == 0) throw Error(ErrorCode::unsupported, "train: device cuda: " + once.why);
  return once;
}

} // namespace

const cudnn::Module& gpuLayers() { return *opened().module; }

int gpuOf(int gpus, int named, int local_rank) {
  if (named < 0) return local_rank % gpus;
  if (named < gpus) return named;
  throw Error(ErrorCode::invalid_argument, "train: RONDO_DEVICE is " + std::to_string(named) +
                                               ", but the last GPU of this machine is " +
                                               std::to_string(gpus - 1));
}

int localRank(const std::vector<std::vector<std::byte>>& machines, int rank) {
  const auto own = machines.begin() + rank;
  return static_cast<int>(std::count(machines.begin(), own, *own));
}

Compute computeOf(const std::string& device, const std::string& precision, int local_rank) {
  requireTrainDevice(device);
  Compute compute(precisionOf(precision));
  if (device == "cpu") return compute;
  if (compute.precision != Precision::float32)
    throw Error(ErrorCode::unsupported, "train: device cuda computes in float32 only");
  const Options set = Options::fromEnvironment();
  compute.gpu = cudnn::Gpu{gpuOf(opened().devices, set.device, local_rank), set.timeout};
  return compute;
}

Compute computeOf(const std::string& device, const std::string& precision, Communicator& comm) {
  int local_rank = 0;
  // Must come before anything that can fail on one rank alone.
  if (device == "cuda") {
    const std::string machine = bootId();
    local_rank = localRank(comm.exchange(std::as_bytes(std::span(machine))), comm.rank());
  }
  return computeOf(device, precision, local_rank);
}

} // namespace rondo::training

namespace rondo {

void requireTrainDevice(const std::string& device) {
  if (device == "cuda") training::gpuLayers();
  else if (device != "cpu")
    throw Error(ErrorCode::invalid_argument,
                "train: device \"" + device + "\"; there are: cpu, cuda");
}

} // namespace rondo
