// `rondo topo --svg`: a machine, or a job's machines, as a drawing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/topo_text.h"
#include "topology/machine.h"
#include "topology/seats.h"

namespace rondo::tools {

/// A machine of a job, and the ranks on it with their seats.
struct DrawnNode {
  std::string name;
  topology::Machine machine;
  std::vector<std::pair<int, topology::Seat>> ranks;
};

/// A page for a browser. Each node has a card: packages with their caches and cores, the PCI
/// devices near each, NVLinks below. Ranks stand on their cores and GPUs; how any two are linked is
/// a table under it (of devices, where there are no ranks), which is left out beyond 64.
std::string machineSvg(const topology::Machine& machine, const std::vector<topology::Seat>& seats);

/// The same for machines that need not be alike, under a title and a note.
std::string jobSvg(const std::string& title, const std::string& note,
                   const std::vector<DrawnNode>& nodes, const Ways& ways);

} // namespace rondo::tools
