// One element of the benchmark's inputs and of its results; data.h says how they are chosen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rondo/types.h"

namespace rondo::tools {

/// Pseudo-random bits, the same everywhere.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// Which inputs to make.
struct Recipe {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 1;
};

/// Element `index` of the rank's input. Float types: the value. Only for those.
double floatInput(const Recipe& recipe, int rank, std::size_t index);
/// Integer types: the bits, sign-extended to 64.
std::uint64_t integerInput(const Recipe& recipe, int rank, std::size_t index);

/// The exact reduction of element `index` over all ranks.
double floatResult(const Recipe& recipe, std::size_t index);
std::uint64_t integerResult(const Recipe& recipe, std::size_t index);

} // namespace rondo::tools
