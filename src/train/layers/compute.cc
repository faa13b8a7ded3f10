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

/// What the module's start function returns; null if there is none, and then `why` is the reason.
/// The loader finds a module by the library paths of the program and of this library. Modules are
/// never closed.
template <class Start>
auto start(const char* module, const char* symbol, std::string& why) -> decltype(Start()()) {
  if (!why.empty()) return nullptr;
  void* const file = ::dlopen(module, RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    why = ::dlerror();
    return nullptr;
  }
  if (const auto function = reinterpret_cast<Start>(::dlsym(file, symbol))) return function();
  why = std::string(module) + " is of another version";
  return nullptr;
}

struct Cpu {
  std::string why = RONDO_DNNL_MISSING;
  const onednn::Module* module =
      start<onednn::StartFunction>(onednn::kModuleFile, onednn::kModuleSymbol, why);
};

struct Gpus {
  std::string why = RONDO_CUDNN_MISSING;
  const cudnn::Module* module =
      start<cudnn::StartFunction>(cudnn::kModuleFile, cudnn::kModuleSymbol, why);
  int devices = module ? module->devices(why) : 0;
};

/// A string that is equal for all processes of a machine, also in different containers. Empty if it
/// cannot be read: then all ranks count as being on one machine.
std::string bootId() { return base::firstLine("/proc/sys/kernel/random/boot_id"); }

const Cpu& cpu() {
  static const Cpu once;
  return once;
}

const Gpus& gpus() {
  static const Gpus once;
  if (once.devices == 0) throw Error(ErrorCode::unsupported, "train: device cuda: " + once.why);
  return once;
}

} // namespace

bool haveCpuLayers() { return cpu().module != nullptr; }

const onednn::Module& cpuLayers() {
  if (haveCpuLayers()) return *cpu().module;
  std::string remedy; // dlerror() begins with the name of the missing file
  if (cpu().why.starts_with(onednn::kModuleFile))
    remedy =
        " (this file is a part of Rondo: install it, in the same version, beside librondo.so; "
        "with wheels: pip install rondo-onednn; for a statically linked program: add its "
        "folder to LD_LIBRARY_PATH)";
  else if (*RONDO_DNNL_MISSING == '\0') remedy = " (install oneDNN; Debian: libdnnl2)";
  throw Error(ErrorCode::unsupported, "train: device cpu: " + cpu().why + remedy);
}

const cudnn::Module& gpuLayers() { return *gpus().module; }

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
  requireTrainDevice(device, precision);
  Compute compute(precisionOf(precision));
  if (device == "cpu") return compute;
  const Options set = Options::fromEnvironment();
  compute.gpu = cudnn::Gpu{gpuOf(gpus().devices, set.device, local_rank), set.timeout};
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

void requireTrainDevice(const std::string& device, const std::string& precision) {
  if (device != "cpu" && device != "cuda")
    throw Error(ErrorCode::invalid_argument,
                "train: unknown device \"" + device + "\"; valid: cpu, cuda");
  if (device == "cuda" && precision != "float32")
    throw Error(ErrorCode::unsupported, "train: device cuda computes in float32 only");
  if (device == "cuda") training::gpuLayers();
  else training::cpuLayers();
  training::precisionOf(precision);
}

} // namespace rondo
