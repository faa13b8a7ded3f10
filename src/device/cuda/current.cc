// Makes a device current on a thread, with the driver's stack of contexts.
#include "device/cuda/current.h"

#include <map>
#include <mutex>

namespace rondo::device {

namespace {

struct Contexts {
  decltype(&cuDevicePrimaryCtxRetain) retain =
      entry<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  decltype(&cuDevicePrimaryCtxRelease) release =
      entry<decltype(&cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease");
  decltype(&cuCtxPushCurrent) push = entry<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent");
  decltype(&cuCtxPopCurrent) pop = entry<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent");

  static const Contexts& get() {
    static const Contexts one;
    return one;
  }
};

} // namespace

std::shared_ptr<const Context> Context::of(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<const Context>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Context> context = all[device].lock();
  if (!context) all[device] = context = std::make_shared<const Context>(device);
  return context;
}

Context::Context(int device) : device_(device) {
  must(Contexts::get().retain(&context_, device), "cannot use the device");
}
Context::~Context() { Contexts::get().release(device_); }

Current::Current(const Context& context) {
  must(Contexts::get().push(context.get()), "cannot use the device");
  exchangeMode();
}
Current::~Current() {
  exchangeMode();
  CUcontext context = nullptr;
  Contexts::get().pop(&context);
}

} // namespace rondo::device
