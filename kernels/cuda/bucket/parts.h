// Divides the tensors of a bucket among launches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/bucket/body.h"
#include "kernels/cuda/bucket/bucket.h"

namespace rondo::kernels::cuda {

/// A launch takes at most kMaxTensors tensors and kMaxElements elements. Larger tensors are
/// divided.
class BucketParts {
 public:
  BucketParts(const BucketCall& call, std::size_t tensor_bytes, std::size_t bucket_bytes,
              bool to_bucket)
      : call_(call),
        tensor_bytes_(tensor_bytes),
        bucket_bytes_(bucket_bytes),
        to_bucket_(to_bucket) {}

  /// Sets the arguments of the next launch; false if there is none.
  bool next(BucketArguments& arguments) {
    arguments = {};
    arguments.factor = static_cast<float>(call_.factor);
    arguments.bucket = static_cast<std::byte*>(call_.bucket) + done_ * bucket_bytes_;
    arguments.to_bucket = to_bucket_;
    while (tensor_ < call_.tensors.size() && arguments.part_count < kMaxTensors) {
      const Tensor& tensor = call_.tensors[tensor_];
      const std::size_t count =
          std::min(tensor.count - taken_, kMaxElements - std::size_t{arguments.elements});
      if (count > 0) {
        arguments.parts[arguments.part_count++] = {
            static_cast<std::byte*>(tensor.data) + taken_ * tensor_bytes_, arguments.elements,
            arguments.chunks};
        arguments.elements += static_cast<std::uint32_t>(count);
        arguments.chunks += static_cast<std::uint32_t>((count + kBucketChunk - 1) / kBucketChunk);
        taken_ += count;
      }
      if (taken_ < tensor.count) break; // the launch is full
      ++tensor_;
      taken_ = 0;
    }
    done_ += arguments.elements;
    return arguments.part_count > 0;
  }

 private:
  /// Offsets in a launch are 32-bit numbers.
  static constexpr std::size_t kMaxElements = std::size_t{1} << 31;

  const BucketCall& call_;
  std::size_t tensor_bytes_, bucket_bytes_;
  bool to_bucket_;
  std::size_t tensor_ = 0; ///< index of the next tensor
  std::size_t taken_ = 0;  ///< elements of that tensor in earlier launches
  std::size_t done_ = 0;   ///< elements of the bucket in earlier launches
};

} // namespace rondo::kernels::cuda
