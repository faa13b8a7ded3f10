#include "train/layers/compute.h"

#include <dlfcn.h>

#include "rondo/error.h"
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
  // By its plain name, which the paths of the program and of this library lead to. Never closed.
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

const Opened& opened() {
  static const Opened once = open();
  if (once.devices == 0) throw Error(ErrorCode::unsupported, "train: device cuda: " + once.why);
  return once;
}

} // namespace

const cudnn::Module& gpuLayers() { return *opened().module; }

Compute computeOf(const std::string& device, const std::string& precision, int rank) {
  requireTrainDevice(device);
  Compute compute(precisionOf(precision));
  if (device == "cpu") return compute;
  if (compute.precision != Precision::float32)
    throw Error(ErrorCode::unsupported, "train: device cuda computes in float32 only");
  compute.gpu = rank % opened().devices;
  return compute;
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
