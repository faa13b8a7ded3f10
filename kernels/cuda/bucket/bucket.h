// Packs many tensors into one bucket and back, in one pass that also scales and converts: what a
// data-parallel front end needs around an AllReduce.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda/reduce/reduce.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// The memory of a tensor on the device: read by pack(), written by unpack(); any alignment.
struct Tensor {
  void* data;
  std::size_t count; ///< number of elements; may be 0
};

/// pack(): bucket = the tensors one after the other; unpack(): the reverse. Each element is widened
/// to fp32, multiplied by `factor` (fp32), and rounded to nearest even once.
struct BucketCall {
  std::span<const Tensor> tensors;
  void* bucket = nullptr; ///< the elements of all tensors; must not overlap any of them
  double factor = 1;
};

/// The kernels for one type of tensors and one type of buckets; each may be fp32, fp16 or bf16.
class BucketKernel {
 public:
  /// Throws Error(unsupported) if there is no usable GPU, Error(invalid_argument) for other types.
  BucketKernel(DataType tensor_type, DataType bucket_type);

  /// Make one launch on `stream` for every kMaxTensors tensors (tuning.h). They allocate nothing
  /// and do not wait; the launches may be captured in a graph. The device that was current at
  /// construction must be current. Throw Error(system) if a launch fails.
  void pack(const BucketCall& call, device::Stream stream) const;
  void unpack(const BucketCall& call, device::Stream stream) const;

 private:
  /// A kernel from one type to another, and the number of its blocks that the device can hold at
  /// once.
  struct Cast {
    const void* kernel;
    int grid_limit;
  };
  static Cast cast(DataType from, DataType to);
  void run(const Cast& cast, bool to_bucket, const BucketCall& call, device::Stream stream) const;

  Cast pack_, unpack_;
  std::size_t tensor_bytes_, bucket_bytes_; ///< size of an element
};

} // namespace rondo::kernels::cuda
