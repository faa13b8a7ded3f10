// `rondo topo --svg`: draws a machine, or the machines of a job, as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/topo_text.h"
#include "topology/machine.h"
#include "topology/seats.h"

namespace rondo::tools {

/// A node of a job, and its ranks with their seats.
struct DrawnNode {
  std::string name;
  topology::Machine machine;
  std::vector<std::pair<int, topology::Seat>> ranks;
};

/// Returns an SVG for browsers. Each node is a box: packages with their caches and cores, the
/// PCI devices near each package, and NVLinks below. Ranks are written on their cores and GPUs.
/// Below the nodes a table shows how ranks (or, without ranks, devices) are linked; it is left
/// out above 64.
std::string machineSvg(const topology::Machine& machine, const std::vector<topology::Seat>& seats);

/// The same for machines that may differ, with a title and a note.
std::string jobSvg(const std::string& title, const std::string& note,
                   const std::vector<DrawnNode>& nodes, const Ways& ways);

} // namespace rondo::tools
