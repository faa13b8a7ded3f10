// Proves on a GPU that packing and unpacking give the bits of the same source run on the host,
// whose own test compares it with the reference; and that all roundings of fp32 to the 16-bit
// floats are the same.
#include "kernels/cuda/bucket/body.h"
#include "kernels/cuda/bucket/parts.h"
#include "rondo/error.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels_gpu/gpu.h"

namespace rondo::test {
namespace {

using namespace kernels::cuda;

template <DataType kFrom, DataType kTo>
void onHost(const BucketCall& call, bool to_bucket) {
  BucketParts parts(call, sizeOf(to_bucket ? kFrom : kTo), sizeOf(to_bucket ? kTo : kFrom),
                    to_bucket);
  BucketArguments arguments;
  while (parts.next(arguments))
    BucketPass<kernels::cuda::Format<kFrom>, kernels::cuda::Format<kTo>, PlainAccess, Workers<1>>(
        arguments, {0, 0, 1})
        .run();
}

/// Tensors laid out in `memory` one after the other, with a gap of two bytes.
std::vector<Tensor> layOut(std::byte* memory, const std::vector<std::size_t>& sizes,
                           DataType type) {
  std::vector<Tensor> tensors;
  for (std::size_t size : sizes) {
    tensors.push_back({memory, size});
    memory += size * sizeOf(type) + 2;
  }
  return tensors;
}

template <DataType kTensor, DataType kBucket>
void compare(const std::vector<std::size_t>& sizes, const std::vector<std::byte>& tensor_bytes,
             double factor) {
  std::size_t elements = 0;
  for (std::size_t size : sizes) elements += size;
  std::vector<std::byte> tensors = tensor_bytes, bucket(elements * sizeOf(kBucket));
  const DeviceBytes device_tensors(tensors), device_bucket(bucket.size());
  const BucketKernel kernel(kTensor, kBucket);
  const auto on_host = layOut(tensors.data(), sizes, kTensor);
  const auto on_device = layOut(device_tensors.data(), sizes, kTensor);
  INFO("tensors " << static_cast<int>(kTensor) << ", bucket " << static_cast<int>(kBucket));

  onHost<kTensor, kBucket>({on_host, bucket.data(), factor}, true);
  kernel.pack({on_device, device_bucket.data(), factor}, nullptr);
  CHECK(firstDifference(kBucket, device_bucket.get().data(), bucket.data(), elements) == elements);

  onHost<kBucket, kTensor>({on_host, bucket.data(), factor}, false);
  kernel.unpack({on_device, device_bucket.data(), factor}, nullptr);
  const std::vector<std::byte> got = device_tensors.get();
  for (const Tensor& tensor : on_host) {
    const auto* data = static_cast<const std::byte*>(tensor.data);
    CHECK(firstDifference(kTensor, got.data() + (data - tensors.data()), data, tensor.count) ==
          tensor.count);
  }
}

template <typename Body>
void forEachPair(Body body) {
  constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (body(std::integral_constant<DataType, kTypes[kIndex / 3]>(),
          std::integral_constant<DataType, kTypes[kIndex % 3]>()),
     ...);
  }
  (std::make_index_sequence<9>());
}

} // namespace

TEST_CASE("other types than fp32, fp16 and bf16 are refused") {
  try {
    BucketKernel(DataType::float64, DataType::float32);
    FAIL("a kernel was found");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
  }
}

TEST_CASE("200 tensors of all sizes are packed and unpacked as on the host", "[sanitize]") {
  NEEDS_GPU();
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 300; ++i) sizes.push_back(i % 50 == 0 ? 100000 + i : i * i % 977);
  std::size_t bytes = 0;
  for (std::size_t size : sizes) bytes += size * 4 + 2;
  forEachPair([&](auto tensor, auto bucket) {
    for (double factor : {1.0, 1 / 3.0})
      compare<tensor(), bucket()>(sizes, Inputs(tensor, 5).bytes(bytes / sizeOf(tensor())), factor);
  });
}

TEST_CASE("fp32 numbers around every tie of the 16-bit floats are rounded as on the host") {
  NEEDS_GPU();
  // The upper half of an fp32 number with lower halves around bfloat16's ties; binary16's ties are
  // among the multiples of 2^12 and their neighbours.
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (std::uint32_t step = 0; step < 16; ++step)
      for (std::uint32_t nudge : {0xffffffffu, 0u, 1u})
        numbers.push_back((upper << 16) + (step << 12) + nudge);
  std::vector<std::byte> bytes(numbers.size() * 4 + 2);
  std::memcpy(bytes.data(), numbers.data(), numbers.size() * 4);
  compare<DataType::float32, DataType::float16>({numbers.size()}, bytes, 1);
  compare<DataType::float32, DataType::bfloat16>({numbers.size()}, bytes, 1);
}

} // namespace rondo::test
