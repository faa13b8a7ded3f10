// What a call of the runtime needs around it, on whichever thread of the program it is made.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
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

  /// Whether work that the library gave the device was given up, and may still run: what it may use
  /// is not given back. Any thread.
  bool stuck() const { return stuck_.load(std::memory_order_relaxed); }
  void setStuck(bool stuck) const { stuck_.store(stuck, std::memory_order_relaxed); }

 private:
  const int device_;
  CUcontext context_ = nullptr;
  mutable std::atomic<bool> stuck_{false};
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

/// body(), for destructors: perhaps the device has failed. Of one that is stuck nothing is given
/// back, which might take memory from work that still runs, or wait for it.
template <class Body>
void onDevice(const Context& context, const Body& body) noexcept {
  if (context.stuck()) return;
  try {
    const Current current(context);
    body();
  } catch (const Error&) {
  }
}

} // namespace rondo::device
