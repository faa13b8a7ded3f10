// ReduceOp: the reduction operators of collectives. With the element types and collectives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rondo/collectives.h"
#include "rondo/data_types.h"
#include "rondo/export.h"

namespace rondo {

/// Reduction operator. Only the pre-multiplied sum has a value, its factor. Sums and products of
/// integers wrap around.
class RONDO_API ReduceOp {
 public:
  enum class Kind : std::uint8_t { sum, prod, min, max, avg, band, bor, bxor, premul_sum };
  static constexpr std::size_t kKindCount = 9;

  static const ReduceOp sum, prod;
  /// Floats: -0 is less than +0, and NaN loses against every number, so the result is NaN only if
  /// every contribution is NaN (minimumNumber and maximumNumber of IEEE 754-2019; NCCL does the
  /// same, MPI has no rule). The result depends neither on the order of the contributions nor on
  /// the algorithm.
  static const ReduceOp min, max;
  /// Floats: every contribution is multiplied by 1/ranks (and rounded to the element type) before
  /// the sum. Integers: the sum is divided by the rank count, rounding toward zero.
  static const ReduceOp avg;
  static const ReduceOp band, bor, bxor; ///< integers only
  /// Every contribution of the calling rank is multiplied by `factor` (and rounded to the element
  /// type) before the sum. Ranks may pass different factors. Integers: the product is rounded
  /// toward zero and limited to the range of the type; NaN gives 0. It is computed in float32 for
  /// integers of 8 and 16 bits, in float64 for longer ones.
  static constexpr ReduceOp preMulSum(double factor) { return {Kind::premul_sum, factor}; }
  /// The same, with a factor in memory that the device can read, for communicators on devices.
  /// The factor is one element of the call's type. It is read when the call's stream runs the
  /// call (and at each replay of a captured call), so earlier work of the stream may write it; it
  /// must stay valid until the call is done. Integer factors are exact up to 2^53. A call throws
  /// Error(invalid_argument) on a communicator without a device, and if the device cannot read
  /// the address.
  static constexpr ReduceOp preMulSumAt(const void* factor) {
    ReduceOp op{Kind::premul_sum};
    op.factor_at_ = factor;
    return op;
  }

  constexpr Kind kind() const { return kind_; }
  constexpr double factor() const { return factor_; }
  /// Address of the factor; null if factor() has it.
  constexpr const void* factorAt() const { return factor_at_; }
  /// Whether the operator is defined on the element type (the bitwise ones are not on floats).
  constexpr bool supports(DataType type) const {
    return !isFloat(type) || kind_ < Kind::band || kind_ == Kind::premul_sum;
  }
  constexpr bool operator==(const ReduceOp&) const = default;

 private:
  constexpr ReduceOp(Kind kind, double factor = 1.0) : kind_(kind), factor_(factor) {}
  Kind kind_;
  double factor_;
  const void* factor_at_ = nullptr;
};

inline constexpr ReduceOp ReduceOp::sum{Kind::sum};
inline constexpr ReduceOp ReduceOp::prod{Kind::prod};
inline constexpr ReduceOp ReduceOp::min{Kind::min};
inline constexpr ReduceOp ReduceOp::max{Kind::max};
inline constexpr ReduceOp ReduceOp::avg{Kind::avg};
inline constexpr ReduceOp ReduceOp::band{Kind::band};
inline constexpr ReduceOp ReduceOp::bor{Kind::bor};
inline constexpr ReduceOp ReduceOp::bxor{Kind::bxor};

/// Every operator once; the pre-multiplied sum with factor 0.5.
inline constexpr std::array<ReduceOp, ReduceOp::kKindCount> kReduceOps = {
    ReduceOp::sum,  ReduceOp::prod, ReduceOp::min,  ReduceOp::max,           ReduceOp::avg,
    ReduceOp::band, ReduceOp::bor,  ReduceOp::bxor, ReduceOp::preMulSum(0.5)};

/// "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "premulsum".
RONDO_API std::string_view name(ReduceOp op);
/// Inverse of name(); "premulsum" gets factor 0.5. Throws Error(invalid_argument).
RONDO_API ReduceOp parseReduceOp(std::string_view text);

} // namespace rondo
