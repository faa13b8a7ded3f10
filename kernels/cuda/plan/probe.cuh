// One thread of the kernel that probes a link: stores and loads by the instructions that tell of
// messages. For the GPU and for the tests on the host.
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
