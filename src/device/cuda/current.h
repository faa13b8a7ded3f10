// Makes a device current for calls of the CUDA runtime, on any thread of the program.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>

#include "device/cuda/driver.h"

namespace rondo::device {

/// The primary context of a device, which the CUDA runtime uses too. It is kept until its last
/// owner releases it.
class Context {
 public:
  /// The context of the device, shared by all callers. Throws Error(system).
  static std::shared_ptr<const Context> of(int device);

  explicit Context(int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int device() const { return device_; }
  CUcontext get() const { return context_; }

  /// Whether the library gave up waiting for work on the device, which may still run. Memory that
  /// such work may use is not freed. Any thread.
  bool stuck() const { return stuck_.load(std::memory_order_relaxed); }
  void setStuck(bool stuck) const { stuck_.store(stuck, std::memory_order_relaxed); }

 private:
  const int device_;
  CUcontext context_ = nullptr;
  mutable std::atomic<bool> stuck_{false};
};

/// Makes a device the thread's current one, and restores the previous state, also if that was no
/// device. cudaSetDevice() cannot do that: on a thread that has not used CUDA it would "restore"
/// device 0 and create a context there. Every other runtime call on such a thread creates that
/// context too, so all runtime calls are made under an object of this class, including those that
/// free memory.
///
/// While it exists, the thread may allocate, free and query marks even if a stream of the process
/// is being captured. Code that runs under it never touches such a stream.
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

/// Calls body() on the device and ignores errors; for destructors, which may run after the device
/// has failed. Does nothing on a stuck device: freeing could take memory from work that still runs,
/// or wait for it.
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
