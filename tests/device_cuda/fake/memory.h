// What the fake's kernels ask of its memory.
#pragma once

namespace rondo::test::fake {

/// Whether cudaHostAlloc() gave it. Under State::mutex.
bool isPinned(const void* memory);

} // namespace rondo::test::fake
