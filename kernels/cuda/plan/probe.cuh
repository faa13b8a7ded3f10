// One thread of the kernel that tests a link. It stores and loads with the same instructions as the
// flags of messages. Compiled for the GPU and for the tests on the host.
#pragma once

#include "device/probe.h"
#include "kernels/cuda/plan/wait.cuh"

namespace rondo::kernels::cuda {

template <class Block>
RONDO_HOST_DEVICE void probeWord(const device::Probe& probe, std::uint32_t word) {
  if (probe.to)
    Block::template release<Scope::system>(probe.to + word, std::uint64_t{probe.words[word]});
  if (probe.from) probe.seen[word] = Block::template acquire<Scope::system>(probe.from + word);
}

} // namespace rondo::kernels::cuda
