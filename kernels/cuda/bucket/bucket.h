// Many tensors into one bucket and back, in one pass that also scales and casts: what a
// data-parallel front end does around an AllReduce.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda/reduce/reduce.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// A tensor's memory on the device, readable (pack) or writable (unpack) there; any alignment.
struct Tensor {
  void* data;
  std::size_t count; ///< elements; may be 0
};

/// bucket = tensors one after the other, or back; each element is widened to fp32, multiplied by
/// `factor` (fp32) and rounded to nearest even once.
struct BucketCall {
  std::span<const Tensor> tensors;
  void* bucket = nullptr; ///< the tensors' elements together; overlaps none of them
  double factor = 1;
};

/// The kernels between one type of tensors and one type of buckets: each of fp32, fp16 and bf16.
class BucketKernel {
 public:
  /// Throws Error(unsupported) without a usable GPU, Error(invalid_argument) for other types.
  BucketKernel(DataType tensor_type, DataType bucket_type);

  /// One launch per kMaxTensors tensors (tuning.h) on `stream`; nothing allocated, nothing waited
  /// for; may be captured in a graph. The device of the construction must be current. Throws
  /// Error(system) if a launch fails.
  void pack(const BucketCall& call, device::Stream stream) const;
  void unpack(const BucketCall& call, device::Stream stream) const;

 private:
  /// A kernel from one type to another, and how many of its blocks the device holds at once.
  struct Cast {
    const void* kernel;
    int grid_limit;
  };
  static Cast cast(DataType from, DataType to);
  void run(const Cast& cast, bool to_bucket, const BucketCall& call, device::Stream stream) const;

  Cast pack_, unpack_;
  std::size_t tensor_bytes_, bucket_bytes_; ///< of an element
};

} // namespace rondo::kernels::cuda
