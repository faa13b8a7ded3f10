// What a call of the runtime needs around it, on whichever thread of the program it is made.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/errors.cuh"

namespace rondo::kernels::cuda {

/// Makes a device the thread's current one, and gives the program's back. Meanwhile the thread may
/// allocate and look at marks even if some stream of the process is being captured: what is called
/// here never touches such a stream.
class Current {
 public:
  explicit Current(int device) {
    check(cudaGetDevice(&before_), "no current device");
    if (before_ != device) check(cudaSetDevice(device), "the device cannot be used");
    changed_ = before_ != device;
    cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Current() {
    cudaThreadExchangeStreamCaptureMode(&mode_);
    if (changed_) cudaSetDevice(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace rondo::kernels::cuda
