// How much of a test grid is run.
#pragma once

namespace rondo::test {

/// Sanitizers check accesses, not results: with them grids need every path, not every number.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kWholeGrid = false;
#else
inline constexpr bool kWholeGrid = true;
#endif

/// The thread sanitizer needs every order of steps that threads may run in, but few sizes and
/// roots.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kOnlyOrders = true;
#else
inline constexpr bool kOnlyOrders = false;
#endif

} // namespace rondo::test
