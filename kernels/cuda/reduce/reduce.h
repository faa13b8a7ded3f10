// The contract of the reduction kernels for device memory: (element type, operator) -> kernel, as
// kernels/reduce.h for host memory, and with the same bits. No CUDA type appears here, so that host
// code needs no CUDA headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/stream.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// The operands of one call, in memory that the device can read and write, at any alignment. An
/// output may be exactly one of the inputs or not overlap it at all; outputs do not overlap.
struct ReduceCall {
  std::span<void* const> outputs;      ///< 1 to kMaxOutputs (tuning.h)
  std::span<const void* const> inputs; ///< 1 to kMaxInputs, or any number with a table
  std::size_t count = 0;               ///< elements of each operand
  /// inputs' pointers in memory that the device can read, which stays unchanged until the kernel
  /// has run; read instead of `inputs`, whose size still counts, if not null.
  const void* const* input_table = nullptr;
  /// premul_sum, and avg of floats: every input is first multiplied by it, and rounded.
  double factor = 1;
  /// avg of integers: the sum is divided by it, toward zero. At least 1.
  std::int32_t divisor = 1;
};

/// The kernel of one (type, operator), for the device that is current when it is looked up: done
/// once, when a call is bound.
class ReduceKernel {
 public:
  /// Throws Error(unsupported) where there is no usable GPU, or the library has no code for it;
  /// Error(invalid_argument) for an operator that the type does not support.
  ReduceKernel(DataType type, ReduceOp::Kind kind);

  /// out[j][i] = in[0][i] op in[1][i] op ..., as kernels::ReduceFunction says; of premul_sum with
  /// one input it is the scaling, of avg with one the division. One launch on `stream`, nothing
  /// allocated, nothing waited for; may be captured in a graph. No elements, no launch. The device
  /// of the look-up must be current. Throws Error(invalid_argument) for operands outside of what
  /// ReduceCall says, Error(system) if the launch fails.
  void launch(const ReduceCall& call, device::Stream stream) const;

 private:
  const void* kernel_;
  std::size_t element_bytes_; ///< of what the kernel counts: the bitwise ones count bytes
  std::size_t scale_;         ///< that many to an element of the call
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
