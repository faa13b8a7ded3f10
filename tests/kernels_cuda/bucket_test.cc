// Proves, by running the source of the CUDA kernels on the host: packing and unpacking put every
// element of every tensor at its place, scaled and rounded like the reference, for all pairs of
// types and any size, alignment, number of tensors and number of blocks. Every access is aligned
// and within its operand.
#include <numeric>

#include "kernels/cuda/bucket/body.h"
#include "kernels/cuda/bucket/parts.h"
#include "tests/kernels_cuda/checked_access.h"
#include "tests/kernels_cuda/cuda_test.h"

namespace rondo::test {
namespace {

using namespace kernels::cuda;

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};

/// One element cast from one type to another, with independent arithmetic.
std::uint64_t castElement(DataType from, DataType to, std::uint64_t bits, double factor) {
  const auto code = static_cast<std::uint32_t>(bits);
  const float value = from == DataType::float32
                          ? std::bit_cast<float>(code)
                          : static_cast<float>(smallFormat(from).decode(code));
  const float scaled = value * static_cast<float>(factor);
  return to == DataType::float32 ? std::bit_cast<std::uint32_t>(scaled)
                                 : smallFormat(to).encode(scaled);
}

/// Tensors between gaps, so that each has its own alignment, and their bucket.
class Memory {
 public:
  Memory(DataType tensor_type, DataType bucket_type, const std::vector<std::size_t>& sizes,
         std::size_t gap, std::size_t bucket_offset)
      : tensor_type_(tensor_type),
        bucket_type_(bucket_type),
        elements_(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0})),
        tensors_(elements_ * sizeOf(tensor_type) + sizes.size() * gap + 16),
        bucket_(elements_ * sizeOf(bucket_type) + bucket_offset + 16),
        bucket_offset_(bucket_offset) {
    std::byte* at = aligned(tensors_);
    for (std::size_t size : sizes) {
      list_.push_back({at, size});
      at += size * sizeOf(tensor_type) + gap;
    }
  }

  BucketCall call(double factor) { return {list_, aligned(bucket_) + bucket_offset_, factor}; }

  /// Calls the body for element i of all tensors, with its place in the bucket.
  template <typename Body>
  void each(Body body) {
    std::size_t i = 0;
    for (const Tensor& tensor : list_)
      for (std::size_t k = 0; k < tensor.count; ++k, ++i)
        body(static_cast<std::byte*>(tensor.data) + k * sizeOf(tensor_type_),
             aligned(bucket_) + bucket_offset_ + i * sizeOf(bucket_type_));
  }

  void allow(bool tensors_writable) {
    CheckedAccess::ranges.clear();
    for (const Tensor& tensor : list_) {
      const auto* begin = static_cast<const std::byte*>(tensor.data);
      CheckedAccess::ranges.push_back(
          {begin, begin + tensor.count * sizeOf(tensor_type_), tensors_writable});
    }
    const std::byte* bucket = aligned(bucket_) + bucket_offset_;
    CheckedAccess::ranges.push_back(
        {bucket, bucket + elements_ * sizeOf(bucket_type_), !tensors_writable});
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& memory) {
    return memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16) % 16;
  }

  DataType tensor_type_, bucket_type_;
  std::size_t elements_;
  std::vector<std::byte> tensors_, bucket_;
  std::size_t bucket_offset_;
  std::vector<Tensor> list_;
};

constexpr int kThreads = 3; ///< of a block

/// Runs all launches of a call, each with `blocks` blocks, one thread after the other.
template <DataType kFrom, DataType kTo>
void run(const BucketCall& call, DataType tensor_type, DataType bucket_type, bool to_bucket,
         std::size_t blocks) {
  BucketParts parts(call, sizeOf(tensor_type), sizeOf(bucket_type), to_bucket);
  BucketArguments arguments;
  while (parts.next(arguments))
    for (std::size_t thread = 0; thread < blocks * kThreads; ++thread)
      BucketPass<kernels::cuda::Format<kFrom>, kernels::cuda::Format<kTo>, CheckedAccess,
                 Workers<kThreads>>(arguments, {thread % kThreads, thread / kThreads, blocks})
          .run();
}

template <DataType kTensor, DataType kBucket>
void compare(const std::vector<std::size_t>& sizes, std::size_t gap, std::size_t bucket_offset,
             std::size_t blocks, double factor) {
  INFO("tensors " << static_cast<int>(kTensor) << ", bucket " << static_cast<int>(kBucket)
                  << ", gap " << gap << ", offset " << bucket_offset << ", blocks " << blocks);
  Memory memory(kTensor, kBucket, sizes, gap, bucket_offset);
  const BucketCall call = memory.call(factor);
  const auto checkAll = [&](DataType from, DataType to, bool to_bucket) {
    std::size_t wrong = 0;
    memory.each([&](std::byte* in_tensor, std::byte* in_bucket) {
      const std::byte* source = to_bucket ? in_tensor : in_bucket;
      const std::byte* target = to_bucket ? in_bucket : in_tensor;
      const std::uint64_t expected = castElement(from, to, element(source, 0, from), factor);
      wrong += !sameElement(to, element(target, 0, to), expected);
    });
    CHECK(wrong == 0);
  };

  Inputs tensor_values(kTensor, 3), bucket_values(kBucket, 4);
  memory.each([&](std::byte* in_tensor, auto*) {
    setElement(in_tensor, 0, kTensor, tensor_values.next());
  });
  memory.allow(false);
  run<kTensor, kBucket>(call, kTensor, kBucket, true, blocks);
  checkAll(kTensor, kBucket, true);

  memory.each([&](auto*, std::byte* in_bucket) {
    setElement(in_bucket, 0, kBucket, bucket_values.next());
  });
  memory.allow(true);
  run<kBucket, kTensor>(call, kTensor, kBucket, false, blocks);
  checkAll(kBucket, kTensor, false);
}

template <typename Body>
void forEachPair(Body body) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (body(std::integral_constant<DataType, kTypes[kIndex / 3]>(),
          std::integral_constant<DataType, kTypes[kIndex % 3]>()),
     ...);
  }
  (std::make_index_sequence<9>());
}

} // namespace

TEST_CASE("tensors of every small size are packed at every alignment") {
  std::vector<std::size_t> sizes(40);
  std::iota(sizes.begin(), sizes.end(), 0);
  forEachPair([&](auto tensor, auto bucket) {
    for (std::size_t gap = 0; gap < 16; gap += kWholeGrid ? 1 : 5)
      for (std::size_t offset = 0; offset < 16; ++offset)
        compare<tensor(), bucket()>(sizes, gap, offset, 1, 1 / 3.0);
  });
}

TEST_CASE("tensors around the size of a chunk are packed by several blocks") {
  const std::vector<std::size_t> sizes = {kBucketChunk - 1,    kBucketChunk, 0, kBucketChunk + 1, 1,
                                          3 * kBucketChunk + 5};
  forEachPair([&](auto tensor, auto bucket) {
    for (std::size_t blocks : {1, 2, 3, 100})
      for (double factor : kWholeGrid ? std::vector{1.0, 0.125, -3.0} : std::vector{-3.0})
        compare<tensor(), bucket()>(sizes, 4, 2, blocks, factor);
  });
}

TEST_CASE("more tensors than a launch takes are packed, and none") {
  forEachPair([](auto tensor, auto bucket) {
    for (std::size_t count : {0, kMaxTensors - 1, kMaxTensors, kMaxTensors + 1, 3 * kMaxTensors})
      compare<tensor(), bucket()>(std::vector<std::size_t>(count, 5), 2, 0, 2, 0.5);
  });
}

TEST_CASE("launches cover huge tensors without gap or overlap") {
  const std::size_t huge = (std::size_t{5} << 31) + 12345;
  // Nothing is read or written: only addresses are computed.
  auto* memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20);
  const Tensor tensors[] = {{memory, 77}, {memory, huge}, {memory, 0}, {memory, 1000}};
  const BucketCall call{tensors, memory, 1};
  BucketParts parts(call, 2, 4, true);
  BucketArguments arguments;
  std::size_t elements = 0, launches = 0;
  while (parts.next(arguments)) {
    ++launches;
    CHECK(arguments.elements <= std::uint32_t{1} << 31);
    CHECK(arguments.bucket == memory + 4 * elements);
    std::uint32_t chunks = 0;
    for (std::uint32_t i = 0; i < arguments.part_count; ++i) {
      const auto& part = arguments.parts[i];
      const std::uint32_t end =
          i + 1 < arguments.part_count ? arguments.parts[i + 1].start : arguments.elements;
      CHECK(part.first_chunk == chunks);
      CHECK(end > part.start);
      chunks += (end - part.start + kBucketChunk - 1) / kBucketChunk;
    }
    CHECK(chunks == arguments.chunks);
    elements += arguments.elements;
  }
  CHECK(elements == 77 + huge + 1000);
  CHECK(launches == 6);
}

} // namespace rondo::test
