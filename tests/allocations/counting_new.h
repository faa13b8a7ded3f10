// Counts the allocations of each thread, by replacing operator new.
#pragma once

#include <cstddef>

namespace rondo::test {

/// Allocations of the calling thread so far, by any form of operator new.
std::size_t allocations();

/// Those of them with kLarge bytes or more.
std::size_t largeAllocations();
inline constexpr std::size_t kLarge = 2048;

} // namespace rondo::test
