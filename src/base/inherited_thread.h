// Handles of threads that stayed in the parent of a forked child.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <thread>
#include <utility>

namespace rondo::base {

/// In a forked child, of a thread that its parent made. Such a handle can be neither joined nor
/// detached: a thread that the child made since may have the same, and both would meet that one.
inline void forget(std::thread& inherited) {
  alignas(std::thread) std::array<std::byte, sizeof(std::thread)> never_destroyed;
  new (never_destroyed.data()) std::thread(std::move(inherited));
}

} // namespace rondo::base
