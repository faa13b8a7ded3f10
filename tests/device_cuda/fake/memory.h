// What the rest of the fake asks of its memory.
#pragma once

#include "device_cuda/fake/state.h"

namespace rondo::test::fake {

/// Whether cudaHostAlloc() gave it. Under State::mutex.
bool isPinned(const void* memory);
/// The machine's end: device memory that nobody has freed, as where the library keeps it for good.
void freeLeft(FakeCuda::State& state);

} // namespace rondo::test::fake
