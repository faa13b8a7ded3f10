// What a call of the runtime needs around it, on whichever thread of the program it is made.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/errors.cuh"

namespace rondo::device {

using kernels::cuda::check;

/// Meanwhile the thread may allocate, free and look at marks even if some stream of the process is
/// being captured: what is done under it never touches such a stream.
class Relaxed {
 public:
  Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Makes a device the thread's current one, and gives the program's back.
class Current {
 public:
  explicit Current(int device) {
    check(cudaGetDevice(&before_), "no current device");
    if (before_ != device) check(cudaSetDevice(device), "the device cannot be used");
    changed_ = before_ != device;
  }
  ~Current() {
    if (changed_) cudaSetDevice(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Relaxed relaxed_;
  int before_ = 0;
  bool changed_ = false;
};

} // namespace rondo::device
