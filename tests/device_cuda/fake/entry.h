// How a function of the fake begins: counted by its name, under the lock.
#pragma once

#include "device_cuda/fake/state.h"

namespace rondo::test::fake {

/// Also the lock that waits need.
struct Entry {
  explicit Entry(const char* function)
      : name(function), state(FakeCuda::State::get()), lock(state.mutex) {
    ++state.calls[name];
  }
  /// What the function returns.
  cudaError_t result(cudaError_t error) const {
    if (error != cudaSuccess) self().last = error;
    return error;
  }

  const char* const name;
  FakeCuda::State& state;
  std::unique_lock<std::mutex> lock;
};

} // namespace rondo::test::fake
