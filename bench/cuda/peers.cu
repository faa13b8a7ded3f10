// Implements the sums of peers.h with CUB's transforms.
#include "bench/cuda/peers.h"

#if __has_include(<cub/device/device_transform.cuh>)
#include <cuda_bf16.h>

#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>
#include <stdexcept>
#include <utility>

namespace rondo {
namespace {

template <class T>
struct Sum {
  template <class... Inputs>
  __device__ T operator()(Inputs... inputs) const {
    return static_cast<T>((... + static_cast<float>(inputs)));
  }
};

template <class T, std::size_t... kInputs>
std::function<void()> sumOf(const std::vector<const void*>& inputs, void* output, std::size_t count,
                            std::index_sequence<kInputs...>) {
  return [inputs, output, count] {
    const cudaError_t status = cub::DeviceTransform::Transform(
        ::cuda::std::make_tuple(static_cast<const T*>(inputs[kInputs])...), static_cast<T*>(output),
        count, Sum<T>{});
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  };
}

template <class T>
std::function<void()> sumOf(const std::vector<const void*>& inputs, void* output,
                            std::size_t count) {
  switch (inputs.size()) {
    case 2: return sumOf<T>(inputs, output, count, std::make_index_sequence<2>());
    case 4: return sumOf<T>(inputs, output, count, std::make_index_sequence<4>());
    case 8: return sumOf<T>(inputs, output, count, std::make_index_sequence<8>());
    default: return {};
  }
}

} // namespace

std::function<void()> cubSum(DataType type, const std::vector<const void*>& inputs, void* output,
                             std::size_t count) {
  if (type == DataType::float32) return sumOf<float>(inputs, output, count);
  if (type == DataType::bfloat16) return sumOf<__nv_bfloat16>(inputs, output, count);
  return {};
}

} // namespace rondo

#else

namespace rondo {

std::function<void()> cubSum(DataType, const std::vector<const void*>&, void*, std::size_t) {
  return {};
}

} // namespace rondo

#endif
