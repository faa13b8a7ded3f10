// Single elements of the benchmark's inputs and results; data.h says how they are chosen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rondo/types.h"

namespace rondo::tools {

/// Pseudo-random bits, the same on every machine.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// Determines the inputs.
struct Recipe {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 1;
};

/// Value of element `index` of the rank's input; for float types only.
double floatInput(const Recipe& recipe, int rank, std::size_t index);
/// The same for integer types: the bits, sign-extended to 64.
std::uint64_t integerInput(const Recipe& recipe, int rank, std::size_t index);

/// The exact reduction of element `index` over these ranks.
double floatResult(const Recipe& recipe, detail::RankRange of, std::size_t index);
std::uint64_t integerResult(const Recipe& recipe, detail::RankRange of, std::size_t index);

} // namespace rondo::tools
