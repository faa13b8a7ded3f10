// The scaling of averages and pre-multiplied sums, on the device and on the host. The bits are the
// same as those of kernels::scaleFunction() and kernels::divideIntegers(), except for NaN payloads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/element/formats.h"
#include "rondo/types.h"

namespace rondo::kernels::cuda {

/// Scaling<type>(factor)(value) is value * factor as an element of the type. It is computed in fp32
/// (fp64 for double and 32- and 64-bit integers). Floats are rounded to nearest even; integers are
/// truncated and saturated, and a NaN gives 0.
template <DataType kType>
class Scaling {
 public:
  using F = Format<kType>;
  using Value = typename F::Value;
  using Factor =
      std::conditional_t<isFloat(kType) ? sizeof(Value) == 4 : sizeOf(kType) <= 2, float, double>;

  explicit RONDO_HOST_DEVICE Scaling(double factor) : factor_(static_cast<Factor>(factor)) {}

  RONDO_HOST_DEVICE Value operator()(Value value) const {
    if constexpr (isFloat(kType)) {
      return F::load(F::store(value * factor_));
    } else {
      return saturate(static_cast<Factor>(value) * factor_);
    }
  }

  /// Scales all values of a word; faster than one by one, because the GPU converts pairs.
  RONDO_HOST_DEVICE void scaleWord(Value (&values)[kPerWord<F>]) const {
    if constexpr (isFloat(kType)) {
      RONDO_UNROLL
      for (Value& value : values) value *= factor_;
      unpack<F>(pack<F>(values), values);
    } else {
      RONDO_UNROLL
      for (Value& value : values) value = (*this)(value);
    }
  }

 private:
  static constexpr bool kSigned = std::is_signed_v<Value>;
  static constexpr int kValueBits = static_cast<int>(8 * sizeOf(kType)) - (kSigned ? 1 : 0);
  static constexpr std::uint64_t kLargest = ~std::uint64_t{0} >> (64 - kValueBits);
  static constexpr auto kHalfEnd = static_cast<Factor>((kLargest >> 1) + 1); ///< a power of two

  static RONDO_HOST_DEVICE Value saturate(Factor value) {
    constexpr Factor kEnd = kHalfEnd * 2; // exact, while the largest number may not be
    if (value >= kEnd) return static_cast<Value>(kLargest);
    if (value <= (kSigned ? -kEnd : Factor(0))) {
      return kSigned ? static_cast<Value>(~kLargest) : Value(0);
    }
    return value == value ? static_cast<Value>(value) : Value(0);
  }

  Factor factor_;
};

/// The division of an integer average: toward zero, after the sum has wrapped. divisor > 0.
template <class F>
RONDO_HOST_DEVICE typename F::Value divide(typename F::Value sum, std::int32_t divisor) {
  return F::load(F::store(sum)) / static_cast<typename F::Value>(divisor);
}

} // namespace rondo::kernels::cuda
