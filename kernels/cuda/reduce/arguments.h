// The arguments of the reduction kernels. They are passed by value, so that a launch needs no
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {

struct ReduceArguments {
  const std::byte* input_list[kMaxInputs];
  std::byte* output_list[kMaxOutputs];
  const void* const* input_table; ///< if not null, used instead of input_list
  std::uint32_t input_count, output_count;
  std::size_t count;
  double scale_factor;
  std::int32_t result_divisor;

  RONDO_HOST_DEVICE unsigned inputs() const { return input_count; }
  RONDO_HOST_DEVICE unsigned outputs() const { return output_count; }
  RONDO_HOST_DEVICE const std::byte* input(unsigned k) const {
    return input_table ? static_cast<const std::byte*>(input_table[k]) : input_list[k];
  }
  RONDO_HOST_DEVICE std::byte* output(unsigned j) const { return output_list[j]; }
  RONDO_HOST_DEVICE bool scaled(unsigned) const { return true; }
  RONDO_HOST_DEVICE double factor() const { return scale_factor; }
  RONDO_HOST_DEVICE std::int32_t divisor() const { return result_divisor; }
};

} // namespace rondo::kernels::cuda
