// The interface of the reduction kernels for host memory: (dtype, operator) -> function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rondo/types.h"

namespace rondo::kernels {

/// out[j][i] = in[0][i] op in[1][i] op ... op in[inputs-1][i], for all j < outputs, i < count.
/// inputs >= 1 (a single input is copied), outputs >= 1. Any alignment. An output must either be
/// exactly one of the inputs or not overlap any input; outputs must not overlap each other.
/// Makes one pass: each input is read once, each output written once. Operands are combined
/// strictly in the given order, (((in0 op in1) op in2) ...). 16- and 8-bit floats are widened to
/// fp32, combined there, and rounded to nearest even once, at the end. fp32 and fp64 use no fused
/// multiply-add, so the result does not depend on the instruction set, count or alignment.
/// min and max: if one operand is NaN, the result is the other one; -0 is less than +0. Integers
/// wrap.
using ReduceFunction = void (*)(void* const* outputs, std::size_t output_count,
                                const void* const* inputs, std::size_t input_count,
                                std::size_t count);

/// out[i] = in[i] * factor, computed in fp32 (fp64 for double and 32/64-bit integers), rounded to
/// nearest even (integers: toward zero, saturating). out == in is allowed.
using ScaleFunction = void (*)(void* output, const void* input, std::size_t count, double factor);

/// For avg and premul_sum this is the function of sum; the caller scales. Never null for an
/// operator that the type supports. A bitwise operator on floats is a programming error (asserted).
ReduceFunction reduceFunction(DataType type, ReduceOp::Kind op);
ScaleFunction scaleFunction(DataType type);

/// One element of what a ReduceFunction or ScaleFunction computes, by scalar code that shares
/// nothing with theirs, to check them. Elements are bit patterns, in the low bytes. The result is
/// the same, except that a NaN may be another NaN: compare by sameElement().
std::uint64_t reduceElement(DataType type, ReduceOp::Kind op,
                            std::span<const std::uint64_t> inputs);
std::uint64_t scaleElement(DataType type, std::uint64_t element, double factor);
bool sameElement(DataType type, std::uint64_t a, std::uint64_t b);
/// An element as a number, for texts; of an integer in full.
std::string elementText(DataType type, std::uint64_t element);

/// memcpy that does not keep the output in the caches. Faster if the output would not stay there
/// anyway; slower if it would, and for small sizes. Its writes become visible to other threads in
/// the same way as those of memcpy.
void copyPastCaches(void* output, const void* input, std::size_t bytes);
/// The same without AVX-512, as on older processors. For tests.
void copyPastCachesBySse(void* output, const void* input, std::size_t bytes);

/// data[i] /= divisor for integers, rounded toward zero (the division of an integer average).
void divideIntegers(void* data, std::size_t count, DataType type, long long divisor);

/// Name of the instruction set in use, e.g. "AVX3", "AVX2", "EMU128".
std::string_view instructionSet();

} // namespace rondo::kernels
