// Launches the kernels of the GPU layers.
#include "train/layers/cudnn/kernels.h"

#include <algorithm>

#include "train/layers/cudnn/body.h"
#include "train/layers/cudnn/handles.h"

namespace rondo::training::cudnn {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMaxBlocks = 1024; ///< above this each thread handles several items

template <class Call>
__global__ void __launch_bounds__(kThreads) layerKernel(const __grid_constant__ Call call) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items(call);
       i += step)
    runOne(call, i);
}

template <class Call>
void launch(Call call, cudaStream_t stream) {
  const std::size_t blocks = (items(call) + kThreads - 1) / kThreads;
  void* parameters[] = {&call};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(&layerKernel<Call>),
                         dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks))), dim3(kThreads),
                         parameters, 0, stream),
        "cudaLaunchKernel");
}

} // namespace

void run(const DropoutCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const LossCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const FiniteCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const ChannelSumsCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const JoinCall& call, cudaStream_t stream) { launch(call, stream); }
void run(const AffineCall& call, cudaStream_t stream) { launch(call, stream); }

} // namespace rondo::training::cudnn
