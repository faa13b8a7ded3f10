// Common parts of the CUDA kernels' tests: loops over all types and reductions as constants.
#pragma once

#include <type_traits>
#include <utility>

#include "tests/kernels/kernel_test.h"

namespace rondo::test {

/// Calls body(integral_constant<DataType, type>) for every type.
template <typename Body>
void forEachType(Body body) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (body(std::integral_constant<DataType, kDataTypes[kIndex]>()), ...);
  }
  (std::make_index_sequence<kDataTypeCount>());
}

/// Calls body(type, integral_constant<ReduceOp::Kind, kind>) for every operator that a type
/// supports.
template <typename Body>
void forEachReduction(Body body) {
  forEachType([&](auto type) {
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      const auto one = [&](auto op) {
        if constexpr (kReduceOps[op()].supports(type()))
          body(type, std::integral_constant<ReduceOp::Kind, kReduceOps[op()].kind()>());
      };
      (one(std::integral_constant<std::size_t, kIndex>()), ...);
    }
    (std::make_index_sequence<ReduceOp::kKindCount>());
  });
}

} // namespace rondo::test
