// Look-up functions of the CPU kernels, one pair for each family of element types. Each family is
// one or two translation units, and selects the best instruction set of the machine.
#pragma once

#include <cstddef>

#include "kernels/reduce.h"

namespace rondo::kernels {

ReduceFunction narrowIntegerReduction(DataType type, ReduceOp::Kind op); ///< 8 and 16 bits
ReduceFunction wideIntegerReduction(DataType type, ReduceOp::Kind op);   ///< 32 and 64 bits
ReduceFunction floatReduction(DataType type, ReduceOp::Kind op);         ///< 32 and 64 bits
ReduceFunction halfReduction(DataType type, ReduceOp::Kind op);          ///< 16 bits
ReduceFunction float8Reduction(DataType type, ReduceOp::Kind op);

ScaleFunction integerScale(DataType type);
ScaleFunction floatScale(DataType type);
ScaleFunction halfScale(DataType type);
ScaleFunction float8Scale(DataType type);

/// Copies one input to any number of outputs. An output may be the input.
void copy(void* const* outputs, std::size_t output_count, const void* input, std::size_t bytes);

} // namespace rondo::kernels
