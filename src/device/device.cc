// Opens devices, by the module with the CUDA code.
#include "device/device.h"

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "device/open_module.h"
#include "rondo/error.h"

namespace rondo::device {

namespace {

struct Replacement {
  std::mutex mutex;
  DeviceOpener opener;
};
Replacement& replacement() {
  static Replacement one;
  return one;
}

DeviceOpener replaced() {
  Replacement& one = replacement();
  const std::lock_guard lock(one.mutex);
  return one.opener;
}

/// Where the module comes from, for the text of an error.
std::string howToGet() {
  constexpr std::string_view kMissing = RONDO_CUDA_MISSING;
  if (kMissing.empty()) return "; build and install it together with librondo.so";
  return " (this build has no CUDA: " + std::string(kMissing) + ")";
}

} // namespace

void replaceDevices(DeviceOpener opener) {
  Replacement& one = replacement();
  const std::lock_guard lock(one.mutex);
  one.opener = std::move(opener);
}

std::shared_ptr<Device> openDevice(int number) {
  if (const DeviceOpener opener = replaced()) return opener(number);
  std::string why;
  if (const CudaModule* const module = openModule(why)) return module->open(number);
  throw Error(ErrorCode::unsupported, "device " + std::to_string(number) + ": " + why + howToGet());
}

} // namespace rondo::device
