// The loop of every CPU kernel: one pass over n inputs and m outputs. Compiled once for each
// instruction set.
#if defined(RONDO_KERNELS_CPU_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_CPU_STREAM_INL_H_
#undef RONDO_KERNELS_CPU_STREAM_INL_H_
#else
#define RONDO_KERNELS_CPU_STREAM_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/families.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A source of values: the combination of all inputs.
template <class Format, class Op>
class Combine {
 public:
  using Lane = typename Format::Lane;
  using V = typename Format::V;
  HWY_INLINE Combine(const void* const* inputs, std::size_t size) : inputs_(inputs), size_(size) {}

  HWY_INLINE V at(std::size_t i) const {
    V v = Format::load(input(0) + i);
    for (std::size_t k = 1; k < size_; ++k) v = Op()(v, Format::load(input(k) + i));
    return v;
  }

  /// Four vectors of N elements, from element i on. With four vectors, the loop over the inputs
  /// costs little per vector.
  HWY_INLINE void four(std::size_t i, std::size_t N, V& v0, V& v1, V& v2, V& v3) const {
    const Lane* in = input(0) + i;
    v0 = Format::load(in);
    v1 = Format::load(in + N);
    v2 = Format::load(in + 2 * N);
    v3 = Format::load(in + 3 * N);
    for (std::size_t k = 1; k < size_; ++k) {
      in = input(k) + i;
      v0 = Op()(v0, Format::load(in));
      v1 = Op()(v1, Format::load(in + N));
      v2 = Op()(v2, Format::load(in + 2 * N));
      v3 = Op()(v3, Format::load(in + 3 * N));
    }
  }

  /// A vector of the first `count` elements, for a `count` smaller than the vector.
  HWY_INLINE V few(std::size_t count) const {
    HWY_ALIGN Lane lanes[hn::MaxLanes(typename Format::D())] = {};
    std::memcpy(lanes, input(0), count * sizeof(Lane));
    V v = Format::load(lanes);
    for (std::size_t k = 1; k < size_; ++k) {
      std::memcpy(lanes, input(k), count * sizeof(Lane));
      v = Op()(v, Format::load(lanes));
    }
    return v;
  }

 private:
  HWY_INLINE const Lane* input(std::size_t k) const { return static_cast<const Lane*>(inputs_[k]); }

  const void* const* inputs_;
  std::size_t size_;
};

/// A source of values: one input times a factor.
template <class Format>
class Scaled {
 public:
  using Lane = typename Format::Lane;
  using V = typename Format::V;
  HWY_INLINE Scaled(const void* input, double factor)
      : input_(static_cast<const Lane*>(input)),
        factor_(static_cast<hn::TFromD<typename Format::D>>(factor)) {}

  HWY_INLINE V at(std::size_t i) const { return scale(Format::load(input_ + i)); }

  HWY_INLINE void four(std::size_t i, std::size_t N, V& v0, V& v1, V& v2, V& v3) const {
    v0 = at(i);
    v1 = at(i + N);
    v2 = at(i + 2 * N);
    v3 = at(i + 3 * N);
  }

  HWY_INLINE V few(std::size_t count) const {
    HWY_ALIGN Lane lanes[hn::MaxLanes(typename Format::D())] = {};
    std::memcpy(lanes, input_, count * sizeof(Lane));
    return scale(Format::load(lanes));
  }

 private:
  HWY_INLINE V scale(V v) const { return hn::Mul(v, hn::Set(typename Format::D(), factor_)); }

  const Lane* input_;
  hn::TFromD<typename Format::D> factor_;
};

/// Number of elements before the first one at which a store to `to` is aligned to the vector's
/// size; smaller than a vector. 0 if no element is aligned.
template <class Format>
HWY_INLINE std::size_t elementsToAlignment(const void* to) {
  constexpr std::size_t kLaneBytes = sizeof(typename Format::Lane);
  const std::size_t vector_bytes = hn::Lanes(typename Format::D()) * kLaneBytes;
  const std::size_t bytes = (0 - reinterpret_cast<std::uintptr_t>(to)) & (vector_bytes - 1);
  return bytes % kLaneBytes == 0 ? bytes / kLaneBytes : 0;
}

/// Stores elements [0, count) of the source to all outputs.
///
/// The loop starts where stores to the first output are aligned. The first and the last vector may
/// overlap their neighbours, so no single elements remain. Because an output may be an input, these
/// two vectors are computed before anything is stored, and are stored last.
template <class Format, class Source>
HWY_INLINE void stream(const Source& source, void* const* outputs, std::size_t output_count,
                       std::size_t count) {
  using Lane = typename Format::Lane;
  using V = typename Format::V;
  const typename Format::D d;
  const std::size_t N = hn::Lanes(d);
  if (count < N) {
    if (count == 0) return; // the pointers may be null
    HWY_ALIGN Lane lanes[hn::MaxLanes(d)];
    Format::store(source.few(count), lanes);
    for (std::size_t j = 0; j < output_count; ++j)
      std::memcpy(outputs[j], lanes, count * sizeof(Lane));
    return;
  }
  const V first = source.at(0);
  const V last = source.at(count - N);
  std::size_t i = elementsToAlignment<Format>(outputs[0]);
  for (; i + 4 * N <= count; i += 4 * N) {
    V v0, v1, v2, v3;
    source.four(i, N, v0, v1, v2, v3);
    for (std::size_t j = 0; j < output_count; ++j) {
      Lane* out = static_cast<Lane*>(outputs[j]) + i;
      Format::store(v0, out);
      Format::store(v1, out + N);
      Format::store(v2, out + 2 * N);
      Format::store(v3, out + 3 * N);
    }
  }
  for (; i + N <= count; i += N) {
    const V v = source.at(i);
    for (std::size_t j = 0; j < output_count; ++j)
      Format::store(v, static_cast<Lane*>(outputs[j]) + i);
  }
  for (std::size_t j = 0; j < output_count; ++j) {
    Lane* out = static_cast<Lane*>(outputs[j]);
    Format::store(first, out);
    Format::store(last, out + (count - N));
  }
}

template <class Format, class Op>
void reduce(void* const* outputs, std::size_t output_count, const void* const* inputs,
            std::size_t input_count, std::size_t count) {
  using Lane = typename Format::Lane;
  if (input_count == 1) return copy(outputs, output_count, inputs[0], count * sizeof(Lane));
  stream<Format>(Combine<Format, Op>(inputs, input_count), outputs, output_count, count);
}

template <class Format>
void scale(void* output, const void* input, std::size_t count, double factor) {
  stream<Format>(Scaled<Format>(input, factor), &output, 1, count);
}

} // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
