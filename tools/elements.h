// Encodes numbers as elements of any data type, independently of the kernels under test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rondo/types.h"

namespace rondo::tools {

/// Returns the bits (in the low bytes) of `value`, rounded to nearest even, in a float type. The
/// value must be finite and within the type's range.
std::uint64_t encodeFloat(DataType type, double value);

/// Returns a limit such that integers from 0 to it, and their sums and differences within it, are
/// exact in the type. At most 2^20, even for types that could represent more.
std::int64_t exactLimit(DataType type);

/// Writes the low sizeOf(type) bytes of `bits`.
void storeElement(DataType type, void* to, std::uint64_t bits);

} // namespace rondo::tools
