// This program's operator new counts what each thread allocates.
#pragma once

#include <cstddef>

namespace rondo::test {

/// Allocations of the calling thread so far, by whichever form of operator new.
std::size_t allocations();

/// Those among them of kLarge bytes or more.
std::size_t largeAllocations();
inline constexpr std::size_t kLarge = 2048;

} // namespace rondo::test
