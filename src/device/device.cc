// Opens devices. This file is part of every build; without CUDA it reports what is missing.
#include <mutex>
#include <utility>

#include "device/annotate.h"
#include "device/device.h"
#include "rondo/error.h"
#if defined(RONDO_HAVE_CUDA)
#include "device/cuda/annotate.h"
#include "device/cuda/device.h"
#endif

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

} // namespace

void replaceDevices(DeviceOpener opener) {
  Replacement& one = replacement();
  const std::lock_guard lock(one.mutex);
  one.opener = std::move(opener);
}

std::shared_ptr<Device> openDevice(int number) {
  if (const DeviceOpener opener = replaced()) return opener(number);
#if defined(RONDO_HAVE_CUDA)
  return openCudaDevice(number);
#else
  throw Error(ErrorCode::unsupported, "device " + std::to_string(number) +
                                          ": this build has no CUDA (" RONDO_CUDA_MISSING ")");
#endif
}

void annotateCalls() {
#if defined(RONDO_HAVE_CUDA)
  annotateCudaCalls();
#endif
}

} // namespace rondo::device
