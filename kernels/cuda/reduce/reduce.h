// The interface of the reduction kernels for device memory: (element type, operator) -> kernel. The
// results have the same bits as those of kernels/reduce.h for host memory. No CUDA type appears
// here, so that host code needs no CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/stream.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// The operands of one call, in memory that the device can read and write, at any alignment. An
/// output must either be exactly one of the inputs or not overlap any input; outputs must not
/// overlap.
struct ReduceCall {
  std::span<void* const> outputs;      ///< 1 to kMaxOutputs (tuning.h)
  std::span<const void* const> inputs; ///< 1 to kMaxInputs; any number if there is an input_table
  std::size_t count = 0;               ///< number of elements of each operand
  /// If not null: the pointers of `inputs`, in memory that the device can read and that does not
  /// change until the kernel has run. It is read instead of `inputs`, which still gives the number.
  const void* const* input_table = nullptr;
  /// premul_sum, and avg of floats: every input is first multiplied by it and rounded.
  double factor = 1;
  /// avg of integers: the sum is divided by it, toward zero. At least 1.
  std::int32_t divisor = 1;
};

/// The kernel for one type and operator, for the device that is current at construction. Made once,
/// when a call is bound.
class ReduceKernel {
 public:
  /// Throws Error(unsupported) if there is no usable GPU, or if the library has no code for it;
  /// Error(invalid_argument) for an operator that the type does not support.
  ReduceKernel(DataType type, ReduceOp::Kind kind);

  /// out[j][i] = in[0][i] op in[1][i] op ..., as kernels::ReduceFunction. With one input,
  /// premul_sum and avg only scale or divide. Makes one launch on `stream`, or none if count is 0.
  /// Allocates nothing and does not wait; may be captured in a graph. The device of the
  /// construction must be current. Throws Error(invalid_argument) for operands that ReduceCall does
  /// not allow, Error(system) if the launch fails.
  void launch(const ReduceCall& call, device::Stream stream) const;

 private:
  const void* kernel_;
  std::size_t element_bytes_; ///< size of the kernel's elements; the bitwise kernels work on bytes
  std::size_t scale_;         ///< kernel elements in one element of the call
  int grid_limit_ = 0;        ///< blocks that the device holds at once
};

/// Copies `bytes` to every output in one pass. Same rules and errors as ReduceKernel.
class CopyKernel {
 public:
  CopyKernel();
  void launch(std::span<void* const> outputs, const void* input, std::size_t bytes,
              device::Stream stream) const;

 private:
  ReduceKernel kernel_;
};

} // namespace rondo::kernels::cuda
