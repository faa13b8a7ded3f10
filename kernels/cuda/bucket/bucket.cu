// The kernels that move data between tensors and buckets, and their launch.
#include "kernels/cuda/bucket/bucket.h"

#include <string>

#include "kernels/cuda/bucket/body.h"
#include "kernels/cuda/bucket/parts.h"
#include "kernels/cuda/launch.cuh"

namespace rondo::kernels::cuda {

template <DataType kFrom, DataType kTo>
__global__ void __launch_bounds__(kBucketThreads, kBucketBlocks)
    bucketKernel(const __grid_constant__ BucketArguments arguments) {
  using Grid = Workers<kBucketThreads>;
  BucketPass<Format<kFrom>, Format<kTo>, PlainAccess, Grid>(arguments,
                                                            {threadIdx.x, blockIdx.x, gridDim.x})
      .run();
}

namespace {

template <DataType kFrom>
const void* kernelTo(DataType to) {
  switch (to) {
    case DataType::float32:
      return reinterpret_cast<const void*>(&bucketKernel<kFrom, DataType::float32>);
    case DataType::float16:
      return reinterpret_cast<const void*>(&bucketKernel<kFrom, DataType::float16>);
    case DataType::bfloat16:
      return reinterpret_cast<const void*>(&bucketKernel<kFrom, DataType::bfloat16>);
    default: return nullptr;
  }
}

const void* lookUp(DataType from, DataType to) {
  switch (from) {
    case DataType::float32: return kernelTo<DataType::float32>(to);
    case DataType::float16: return kernelTo<DataType::float16>(to);
    case DataType::bfloat16: return kernelTo<DataType::bfloat16>(to);
    default: return nullptr;
  }
}

} // namespace

BucketKernel::Cast BucketKernel::cast(DataType from, DataType to) {
  const void* kernel = lookUp(from, to);
  if (!kernel)
    throw Error(ErrorCode::invalid_argument,
                "buckets and their tensors must be fp32, fp16 or bf16");
  return {kernel, residentBlocks(kernel, kBucketThreads)};
}

BucketKernel::BucketKernel(DataType tensor_type, DataType bucket_type)
    : pack_(cast(tensor_type, bucket_type)),
      unpack_(cast(bucket_type, tensor_type)),
      tensor_bytes_(sizeOf(tensor_type)),
      bucket_bytes_(sizeOf(bucket_type)) {}

void BucketKernel::pack(const BucketCall& call, device::Stream stream) const {
  run(pack_, true, call, stream);
}

void BucketKernel::unpack(const BucketCall& call, device::Stream stream) const {
  run(unpack_, false, call, stream);
}

void BucketKernel::run(const Cast& cast, bool to_bucket, const BucketCall& call,
                       device::Stream stream) const {
  BucketParts parts(call, tensor_bytes_, bucket_bytes_, to_bucket);
  BucketArguments arguments;
  while (parts.next(arguments))
    launch(cast.kernel, arguments.chunks, cast.grid_limit, kBucketThreads, arguments, stream);
}

} // namespace rondo::kernels::cuda
