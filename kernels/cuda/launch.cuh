// Launches persistent kernels, with at most as many blocks as can be resident at once.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/errors.cuh"

namespace rondo::kernels::cuda {

/// The number of blocks of a kernel that the current device holds at once. If there is no device,
/// or no code for it, this throws, so that the first launch need not.
inline int residentBlocks(const void* kernel, int threads, std::size_t shared_bytes = 0) {
  int device = 0, multiprocessors = 0, blocks = 0;
  check(cudaGetDevice(&device), "no GPU can be used");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cannot read the number of multiprocessors");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes),
        "no kernel for this GPU");
  return std::max(1, blocks * multiprocessors);
}

/// Launches as many blocks as there is work for, at most `limit`.
template <class Arguments>
void launch(const void* kernel, std::size_t blocks, int limit, int threads, Arguments& arguments,
            void* stream) {
  const auto grid = static_cast<unsigned>(std::min(blocks, static_cast<std::size_t>(limit)));
  void* parameters[] = {&arguments};
  check(cudaLaunchKernel(kernel, dim3(grid), dim3(static_cast<unsigned>(threads)), parameters, 0,
                         static_cast<cudaStream_t>(stream)),
        "cannot launch a kernel");
}

} // namespace rondo::kernels::cuda
