// Numbers as elements of any data type, independent of the kernels that the benchmark checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rondo/types.h"

namespace rondo::tools {

/// The element's bits (in the low bytes) for a value of a float type, rounded to nearest even.
/// The value must be finite and in the type's range.
std::uint64_t encodeFloat(DataType type, double value);

/// Integers 0..limit, and sums and differences of them within it, are exact in the type. Limits of
/// large types are cut to 2^20, which is plenty.
std::int64_t exactLimit(DataType type);

bool isSigned(DataType type); ///< floats are

/// Writes the low sizeOf(type) bytes of `bits`.
void storeElement(DataType type, void* to, std::uint64_t bits);

} // namespace rondo::tools
