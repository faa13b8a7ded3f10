// NVML, NVIDIA's library of a machine's GPUs, opened where it is.
#pragma once

#include "topology/machine.h"

namespace rondo::topology {

/// Adds the NVLinks between this machine's GPUs, which are known by their PCI addresses, and which
/// go to switches. Nothing where there is no NVML, no such GPU or no link.
void addNvLinks(Machine& machine);

} // namespace rondo::topology
