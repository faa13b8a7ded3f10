// How averages and pre-multiplied sums scale their elements, for both engines.
#pragma once

#include <cstdint>

#include "base/float_environment.h"
#include "rondo/types.h"

namespace rondo::engine {

/// What an operator scales for elements of a type. An average of floats is the sum of scaled
/// inputs, which cannot overflow. An average of integers is a sum that is divided at the end, so it
/// is rounded only once.
enum class Scales : std::uint8_t { nothing, inputs, output };

constexpr Scales scales(ReduceOp::Kind op, DataType type) {
  if (op == ReduceOp::Kind::premul_sum) return Scales::inputs;
  if (op != ReduceOp::Kind::avg) return Scales::nothing;
  return isFloat(type) ? Scales::inputs : Scales::output;
}

struct Scaling {
  /// Each element read from the call's input is multiplied by it and rounded.
  double factor = 1.0;
  long long divisor = 1; ///< at the end the output is divided by it, rounded toward zero
  /// Address of the factor in device memory, used instead of `factor`.
  const void* factor_at = nullptr;

  bool ofInputs() const { return factor != 1.0; }
};

/// 1 / ranks, independent of the caller's floating-point environment.
inline double shareOf(int ranks) {
  const base::FloatEnvironment same_on_all_ranks;
  volatile double share = 1.0; // so that Clang does not divide before or after the scope
  share = share / ranks;
  return share;
}

inline Scaling scalingOf(ReduceOp op, DataType type, int ranks) {
  switch (scales(op.kind(), type)) {
    case Scales::inputs:
      if (op.kind() == ReduceOp::Kind::avg) return {.factor = shareOf(ranks)};
      return {.factor = op.factor(), .factor_at = op.factorAt()};
    case Scales::output: return {.divisor = ranks};
    case Scales::nothing: break;
  }
  return {};
}

} // namespace rondo::engine
