// Reads NVLinks from NVML, NVIDIA's management library, which is opened at run time.
#pragma once

#include "topology/machine.h"

namespace rondo::topology {

/// Adds the NVLinks between this machine's GPUs, direct ones and those through switches. GPUs are
/// matched by their PCI addresses. Adds nothing if there is no NVML, no such GPU or no link.
void addNvLinks(Machine& machine);

} // namespace rondo::topology
