// The pass that packs tensors into a bucket, or unpacks them, with any number of blocks. It is also
// compiled for the host, where the tests run it.
//
// The bucket is cut into chunks, each of which belongs to one tensor. A block finds the tensor of
// its chunk by bisection, and moves the chunk in units of eight elements: one vector of 16-bit
// elements or two of 32-bit elements. Units are aligned for the written side. On the other side,
// the aligned vectors around the unit are read, within the chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/element/formats.h"
#include "kernels/cuda/element/vector.h"
#include "kernels/cuda/reduce/body.h"
#include "kernels/cuda/tuning.h"

namespace rondo::kernels::cuda {

/// The argument of one launch, passed by value: at most 4 KiB.
struct BucketArguments {
  struct Part {
    std::byte* tensor;
    std::uint32_t start;       ///< its offset in the bucket, in elements
    std::uint32_t first_chunk; ///< number of chunks of the parts before it
  };
  Part parts[kMaxTensors]; ///< no part is empty
  std::uint32_t part_count;
  std::uint32_t elements, chunks; ///< total of all parts
  float factor;
  std::byte* bucket;
  bool to_bucket;
};
static_assert(sizeof(BucketArguments) <= 4096);

template <class From, class To, class Access, class Team>
class BucketPass {
 public:
  RONDO_HOST_DEVICE BucketPass(const BucketArguments& arguments, Team team)
      : arguments_(arguments), team_(team) {}

  RONDO_HOST_DEVICE void run() const {
    RONDO_NO_UNROLL
    for (std::size_t chunk = team_.block; chunk < arguments_.chunks; chunk += team_.blocks)
      moveChunk(static_cast<std::uint32_t>(chunk));
  }

 private:
  static constexpr int kUnit = 8;
  static constexpr int kFromVectors = kUnit * sizeof(typename From::Element) / sizeof(Vector);
  static constexpr int kToVectors = kUnit * sizeof(typename To::Element) / sizeof(Vector);

  /// The part that contains the chunk: the last one that begins at or before it.
  RONDO_HOST_DEVICE std::uint32_t partOf(std::uint32_t chunk) const {
    std::uint32_t low = 0, high = arguments_.part_count;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      if (arguments_.parts[middle].first_chunk <= chunk) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  RONDO_HOST_DEVICE void moveChunk(std::uint32_t chunk) const {
    const std::uint32_t index = partOf(chunk);
    const BucketArguments::Part& part = arguments_.parts[index];
    const std::uint32_t end =
        index + 1 < arguments_.part_count ? arguments_.parts[index + 1].start : arguments_.elements;
    const std::size_t begin = (chunk - part.first_chunk) * kBucketChunk;
    const std::size_t left = end - part.start - begin;
    const std::size_t count = left < kBucketChunk ? left : kBucketChunk;
    const std::size_t in_bucket = part.start + begin;
    if (arguments_.to_bucket) {
      move(part.tensor + begin * sizeof(typename From::Element),
           arguments_.bucket + in_bucket * sizeof(typename To::Element), count);
    } else {
      move(arguments_.bucket + in_bucket * sizeof(typename From::Element),
           part.tensor + begin * sizeof(typename To::Element), count);
    }
  }

  RONDO_HOST_DEVICE void move(const std::byte* from, std::byte* to, std::size_t count) const {
    const std::size_t head = elementsToAlignment<typename To::Element>(to, count);
    std::size_t begin = head;
    std::size_t units = (count - head) / kUnit;
    if (misalignment(from + head * sizeof(typename From::Element)) != 0) {
      // The vectors around the first and the last unit may extend beyond the tensor.
      begin = units > 2 ? head + kUnit : head;
      units = units > 2 ? units - 2 : 0;
    }
    RONDO_NO_UNROLL
    for (std::size_t u = team_.thread; u < units; u += Team::kThreads)
      moveUnit(from + (begin + u * kUnit) * sizeof(typename From::Element),
               to + (begin + u * kUnit) * sizeof(typename To::Element));
    const std::size_t end = begin + units * kUnit;
    RONDO_NO_UNROLL
    for (std::size_t e = team_.thread; e < begin + (count - end); e += Team::kThreads)
      moveElement(from, to, e < begin ? e : e - begin + end);
  }

  RONDO_HOST_DEVICE void moveUnit(const std::byte* from, std::byte* to) const {
    Vector source[kFromVectors], target[kToVectors];
    loadVectors<Access, sizeof(Vector), false>(from, source);
    Lanes<From> in[kFromVectors];
    Lanes<To> out[kToVectors];
    RONDO_UNROLL
    for (int v = 0; v < kFromVectors; ++v) in[v] = unpackVector<From>(source[v]);
    RONDO_UNROLL
    for (int i = 0; i < kUnit; ++i) lane<To>(out, i) = lane<From>(in, i) * arguments_.factor;
    RONDO_UNROLL
    for (int v = 0; v < kToVectors; ++v) target[v] = packVector<To>(out[v]);
    storeVectors<Access, sizeof(Vector), false>(to, target);
  }

  template <class F>
  static RONDO_HOST_DEVICE float& lane(Lanes<F>* lanes, int i) {
    constexpr int kPerVector = sizeof(Vector) / sizeof(typename F::Element);
    return lanes[i / kPerVector].values[i % kPerVector / kPerWord<F>][i % kPerWord<F>];
  }

  RONDO_HOST_DEVICE void moveElement(const std::byte* from, std::byte* to, std::size_t i) const {
    using Source = typename From::Element;
    using Target = typename To::Element;
    const float value = From::load(loadElement<Access, Source>(from + i * sizeof(Source)));
    storeElement<Access, Target>(to + i * sizeof(Target), To::store(value * arguments_.factor));
  }

  const BucketArguments& arguments_;
  Team team_;
};

} // namespace rondo::kernels::cuda
