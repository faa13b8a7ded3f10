// How much of a grid is run.
#pragma once

namespace rondo::test {

/// Sanitizers look at accesses, not at results: under them grids need every path, not every number.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kWholeGrid = false;
#else
inline constexpr bool kWholeGrid = true;
#endif

} // namespace rondo::test
