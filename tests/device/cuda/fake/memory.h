// Functions for the fake's memory that its other files use.
#pragma once

#include "device/cuda/fake/state.h"

namespace rondo::test::fake {

/// Whether cudaHostAlloc() allocated it. Call under State::mutex.
bool isPinned(const void* memory);
/// Frees the device memory that is left when the machine ends, for example memory that the library
/// keeps for good.
void freeLeft(FakeCuda::State& state);

} // namespace rondo::test::fake
