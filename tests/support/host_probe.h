// The kernel that tests links, on the host.
#pragma once

#include "kernels/cuda/plan/probe.cuh"
#include "support/host_switch.h"

namespace rondo::test {

inline void runProbe(const device::Probe& probe) {
  for (std::uint32_t word = 0; word < device::kProbeWords; ++word)
    kernels::cuda::probeWord<HostBlock>(probe, word);
}

inline void runSwitchProbe(const device::Probe& probe) {
  for (std::uint32_t word = 0; word < device::kProbeWords; ++word)
    kernels::cuda::probeSwitch<HostSwitchBlock>(probe, word);
}

} // namespace rondo::test
