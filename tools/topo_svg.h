// `rondo topo --svg`: a machine, or a job's machines, as a drawing.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.h"
#include "topology/seats.h"

namespace rondo::tools {

/// A page for a browser. Each node has a card: packages with their caches and cores, the PCI
/// devices near each, NVLinks below. Ranks stand on their cores and GPUs; how any two are linked is
/// a table under it (of devices, where there are no ranks), which is left out beyond 64.
std::string machineSvg(const topology::Machine& machine, const std::vector<topology::Seat>& seats);

} // namespace rondo::tools
