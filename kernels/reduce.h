// The contract of the reduction kernels: (dtype, operator) -> function, for host memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "rondo/types.h"

namespace rondo::kernels {

/// out[j][i] = in[0][i] op in[1][i] op ... op in[inputs-1][i], for all j < outputs, i < count.
/// One streaming pass: each input is read once, each output written once. Operands are combined
/// strictly in the order given, (((in0 op in1) op in2) ...); 16- and 8-bit floats are widened to
/// fp32, combined there, and rounded to nearest even once, at the end. fp32 and fp64 use no fused
/// multiply-add, so the result does not depend on the instruction set, count or alignment.
/// inputs >= 1 (1 copies), outputs >= 1. Any alignment. An output may be exactly one of the inputs
/// or not overlap it at all; outputs do not overlap each other.
/// min and max: a number wins against NaN, and -0 is less than +0. Integers wrap around.
using ReduceFunction = void (*)(void* const* outputs, std::size_t output_count,
                                const void* const* inputs, std::size_t input_count,
                                std::size_t count);

/// out[i] = in[i] * factor, computed in fp32 (fp64 for double and 32/64-bit integers), rounded to
/// nearest even (integers: toward zero, saturating). out == in is allowed.
using ScaleFunction = void (*)(void* output, const void* input, std::size_t count, double factor);

/// avg and premul_sum give sum's function: scaling is the caller's. Never null for an operator that
/// supports the type; a bitwise operator on floats is a programming error (asserted).
ReduceFunction reduceFunction(DataType type, ReduceOp::Kind op);
ScaleFunction scaleFunction(DataType type);

/// memcpy whose target does not stay in the caches. Faster where it could not stay there anyway;
/// slower where it could, and for small pieces. What it wrote is visible to others as what memcpy
/// writes.
void copyPastCaches(void* output, const void* input, std::size_t bytes);

/// data[i] /= divisor for integers, toward zero (the second half of an integer average).
void divideIntegers(void* data, std::size_t count, DataType type, long long divisor);

/// Name of the instruction set in use, e.g. "AVX3_ZEN4", "AVX2", "EMU128".
std::string_view instructionSet();

} // namespace rondo::kernels
