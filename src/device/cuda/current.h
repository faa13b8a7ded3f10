// What a call of the runtime needs around it, on whichever thread of the program it is made.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "device/cuda/driver.h"

namespace rondo::device {

/// The primary context of a device, which the runtime uses too, for as long as somebody has it.
class Context {
 public:
  /// One for all who ask. Throws Error(system).
  static std::shared_ptr<const Context> of(int device);

  explicit Context(int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  CUcontext get() const { return context_; }

 private:
  const int device_;
  CUcontext context_ = nullptr;
};

/// Makes a device the thread's current one, and gives back what was: also nothing. cudaSetDevice()
/// could not: on a thread that has called nothing yet it would "restore" device 0, and make a
/// context there. Any other call of the runtime on such a thread makes that context too, so all are
/// made under one of these, those that free as well.
///
/// Meanwhile the thread may allocate, free and look at marks even if some stream of the process is
/// being captured: what is done under it never touches such a stream.
class Current {
 public:
  explicit Current(const Context& context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  void exchangeMode() { cudaThreadExchangeStreamCaptureMode(&mode_); }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// body(), for destructors: perhaps the device has failed.
template <class Body>
void onDevice(const Context& context, const Body& body) noexcept {
  try {
    const Current current(context);
    body();
  } catch (const Error&) {
  }
}

} // namespace rondo::device
