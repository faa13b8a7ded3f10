// Drops a forked child's copies of thread handles.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <thread>
#include <utility>

namespace rondo::base {

/// Drops a handle, in a forked child, of a thread of the parent. It can be neither joined nor
/// detached: a thread that the child has made since may have the same handle, and the call would
/// affect that one.
inline void forget(std::thread& inherited) {
  alignas(std::thread) std::array<std::byte, sizeof(std::thread)> never_destroyed;
  new (never_destroyed.data()) std::thread(std::move(inherited));
}

} // namespace rondo::base
