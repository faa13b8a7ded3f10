// The reduction that all CUDA kernels share: n inputs, m outputs, one pass, with any number of
// threads. It is also compiled for the host, where the tests run it.
//
// It works in vectors of 16 bytes that are aligned for the first output. The elements before and
// after them are done one by one. An input with another alignment is read as two aligned vectors
// that overlap it, within the operand. An output with another alignment is written in smaller
// pieces. Every thread reads its bytes of all inputs before it writes any, so an output may be one
// of the inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/element/formats.h"
#include "kernels/cuda/element/operators.h"
#include "kernels/cuda/element/scaling.h"
#include "kernels/cuda/element/vector.h"
#include "kernels/cuda/tuning.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// The threads that share the work: this is thread `thread` of kThreads in block `block` of
/// `blocks`. Threads never wait for each other, so the host can run them one after the other.
template <int kThreadCount>
struct Workers {
  static constexpr std::size_t kThreads = kThreadCount;
  std::size_t thread, block, blocks;

  RONDO_HOST_DEVICE std::size_t index() const { return block * kThreads + thread; }
  RONDO_HOST_DEVICE std::size_t count() const { return blocks * kThreads; }
};

/// Team is a Workers. Operands has
///   unsigned inputs() const, outputs() const;              // at least one of each
///   const std::byte* input(unsigned k) const;
///   std::byte* output(unsigned j) const;
/// and for premul_sum, and avg of floats:
///   bool scaled(unsigned k) const; double factor() const;  // input k is multiplied first
/// and for avg of integers:
///   std::int32_t divisor() const;                          // of the result
/// All threads must get the same results from them, because they must take the same branches.
///
/// Access has load<T>() and store<T>() for an aligned T, as PlainAccess.
template <DataType kType, ReduceOp::Kind kKind, class Access, class Team, class Operands>
class Reduction {
 public:
  RONDO_HOST_DEVICE Reduction(const Operands& operands, std::size_t count, Team team)
      : operands_(operands), count_(count), team_(team) {}

  RONDO_HOST_DEVICE void run() const {
    constexpr std::size_t kPerVector = sizeof(Vector) / sizeof(Element);
    const std::size_t head = elementsToAlignment<Element>(operands_.output(0), count_);
    const Alignment alignment = alignmentAt(head);
    std::size_t begin = head;
    std::size_t vectors = (count_ - head) / kPerVector;
    if (!alignment.inputs) {
      // The vectors around the first and the last one may extend beyond the operand.
      begin = vectors > 2 ? head + kPerVector : head;
      vectors = vectors > 2 ? vectors - 2 : 0;
    }
    const std::size_t end = begin + vectors * kPerVector;

    constexpr int kTurn = vectorsPerTurn(sizeof(typename VectorFormat::Element));
    std::size_t done = 0;
    if (alignment.inputs && alignment.outputs) {
      done = combineTiles<kTurn, true>(begin, vectors);
    } else {
      done = combineTiles<kTurn / 2, false>(begin, vectors);
    }
    RONDO_NO_UNROLL
    for (std::size_t i = done + team_.index(); i < vectors; i += team_.count())
      combineVectors<1, false>(begin * sizeof(Element) + i * sizeof(Vector));
    const std::size_t edges = begin + (count_ - end);
    RONDO_NO_UNROLL
    for (std::size_t e = team_.index(); e < edges; e += team_.count())
      combineElement(e < begin ? e : e - begin + end);
  }

 private:
  static constexpr bool kBitwise = kKind == ReduceOp::Kind::band || kKind == ReduceOp::Kind::bor ||
                                   kKind == ReduceOp::Kind::bxor;
  static constexpr bool kScales =
      kKind == ReduceOp::Kind::premul_sum || (kKind == ReduceOp::Kind::avg && isFloat(kType));
  static constexpr bool kDivides = kKind == ReduceOp::Kind::avg && !isFloat(kType);

  using ElementFormat = Format<kType>;
  using Element = typename ElementFormat::Element;
  /// Bitwise operators work on whole words.
  using VectorFormat = std::conditional_t<kBitwise, Format<DataType::uint32>, ElementFormat>;
  using Values = Lanes<VectorFormat>;
  static constexpr std::size_t kStride = Team::kThreads * sizeof(Vector);

  struct Alignment {
    bool inputs, outputs;
  };

  /// Whether all operands are aligned to vectors from element `begin` on.
  RONDO_HOST_DEVICE Alignment alignmentAt(std::size_t begin) const {
    unsigned inputs = 0, outputs = 0;
    RONDO_NO_UNROLL
    for (unsigned k = 0; k < operands_.inputs(); ++k)
      inputs |= misalignment(operands_.input(k) + begin * sizeof(Element));
    RONDO_NO_UNROLL
    for (unsigned j = 0; j < operands_.outputs(); ++j)
      outputs |= misalignment(operands_.output(j) + begin * sizeof(Element));
    return {inputs == 0, outputs == 0};
  }

  /// Combines whole tiles of kCount vectors for each thread; each block does one tile in each
  /// round. `vectors`: available from element `begin` on. Returns how many were combined.
  template <int kCount, bool kAligned>
  RONDO_HOST_DEVICE std::size_t combineTiles(std::size_t begin, std::size_t vectors) const {
    constexpr std::size_t kTile = kCount * Team::kThreads;
    const std::size_t tiles = vectors / (kTile * team_.blocks) * team_.blocks;
    RONDO_NO_UNROLL
    for (std::size_t tile = team_.block; tile < tiles; tile += team_.blocks)
      combineVectors<kCount, kAligned>(begin * sizeof(Element) +
                                       (tile * kTile + team_.thread) * sizeof(Vector));
    return tiles * kTile;
  }

  /// Scales input k's values before they are combined, if necessary.
  RONDO_HOST_DEVICE void prepare([[maybe_unused]] Values& values,
                                 [[maybe_unused]] unsigned k) const {
    if constexpr (kScales) {
      if (!operands_.scaled(k)) return;
      const Scaling<kType> scaling(operands_.factor());
      RONDO_UNROLL
      for (auto& word : values.values) scaling.scaleWord(word);
    }
  }

  /// Combines the operands element by element in kCount vectors: the first vector is `offset` bytes
  /// from the start of each operand, the others follow kStride bytes apart.
  template <int kCount, bool kAligned>
  RONDO_HOST_DEVICE void combineVectors(std::size_t offset) const {
    Vector vectors[kCount];
    Values result[kCount];
    loadVectors<Access, kStride, kAligned>(operands_.input(0) + offset, vectors);
    RONDO_UNROLL
    for (int n = 0; n < kCount; ++n) {
      result[n] = unpackVector<VectorFormat>(vectors[n]);
      prepare(result[n], 0);
    }
    RONDO_NO_UNROLL
    for (unsigned k = 1; k < operands_.inputs(); ++k) {
      loadVectors<Access, kStride, kAligned>(operands_.input(k) + offset, vectors);
      RONDO_UNROLL
      for (int n = 0; n < kCount; ++n) {
        Values next = unpackVector<VectorFormat>(vectors[n]);
        prepare(next, k);
        combine(result[n], next);
      }
    }
    RONDO_UNROLL
    for (int n = 0; n < kCount; ++n) {
      if constexpr (kDivides) divideAll(result[n]);
      vectors[n] = packVector<VectorFormat>(result[n]);
    }
    RONDO_NO_UNROLL
    for (unsigned j = 0; j < operands_.outputs(); ++j)
      storeVectors<Access, kStride, kAligned>(operands_.output(j) + offset, vectors);
  }

  static RONDO_HOST_DEVICE void combine(Values& result, const Values& next) {
    RONDO_UNROLL
    for (int w = 0; w < Values::kWords; ++w) {
      RONDO_UNROLL
      for (int i = 0; i < kPerWord<VectorFormat>; ++i)
        result.values[w][i] = Operator<kKind>()(result.values[w][i], next.values[w][i]);
    }
  }

  RONDO_HOST_DEVICE void divideAll(Values& result) const {
    RONDO_UNROLL
    for (auto& word : result.values) {
      RONDO_UNROLL
      for (auto& value : word) value = divide<VectorFormat>(value, operands_.divisor());
    }
  }

  RONDO_HOST_DEVICE void combineElement(std::size_t i) const {
    using F = ElementFormat;
    const std::size_t offset = i * sizeof(Element);
    typename F::Value result = elementOf(0, offset);
    RONDO_NO_UNROLL
    for (unsigned k = 1; k < operands_.inputs(); ++k)
      result = Operator<kKind>()(result, elementOf(k, offset));
    if constexpr (kDivides) result = divide<ElementFormat>(result, operands_.divisor());
    const Element code = F::store(result);
    RONDO_NO_UNROLL
    for (unsigned j = 0; j < operands_.outputs(); ++j)
      storeElement<Access, Element>(operands_.output(j) + offset, code);
  }

  RONDO_HOST_DEVICE typename ElementFormat::Value elementOf(unsigned k, std::size_t offset) const {
    const auto value =
        ElementFormat::load(loadElement<Access, Element>(operands_.input(k) + offset));
    if constexpr (kScales) {
      if (operands_.scaled(k)) return Scaling<kType>(operands_.factor())(value);
    }
    return value;
  }

  const Operands& operands_;
  std::size_t count_;
  Team team_;
};

} // namespace rondo::kernels::cuda
