// The start of every function of the fake: counts the call and takes the lock.
#pragma once

#include "device/cuda/fake/state.h"

namespace rondo::test::fake {

/// Also provides the lock for waits.
struct Entry {
  explicit Entry(const char* function)
      : name(function), state(FakeCuda::State::get()), lock(state.mutex) {
    ++state.calls[name];
  }
  /// Records an error and returns it.
  cudaError_t result(cudaError_t error) const {
    if (error != cudaSuccess) self().last = error;
    return error;
  }

  const char* const name;
  FakeCuda::State& state;
  std::unique_lock<std::mutex> lock;
};

} // namespace rondo::test::fake
