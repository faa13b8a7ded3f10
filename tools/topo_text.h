// `rondo topo`: prints machines, and where ranks run on them, as text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/link.h"
#include "topology/machine.h"
#include "topology/seats.h"

namespace rondo::tools {

/// Packages with their memory, caches and cores, and the devices near each; then, if there are at
/// least two devices, a table of how they are linked.
std::string machineText(const topology::Machine& machine);

/// A line for each rank (node, processors, GPU, card), then a table of how ranks are linked.
std::string seatsText(const topology::Machine& machine, const std::vector<topology::Seat>& seats);

/// The link of two ranks or devices, and the transport, if it is known.
struct Way {
  topology::Link link;
  std::string transport = {};

  std::string text() const; ///< "L3 shm"
};
using Ways = std::function<Way(std::size_t, std::size_t)>;

/// A square table of links with these names on both sides, and a legend.
std::string linkTable(const std::vector<std::string>& names, const Ways& ways);

/// A device in words: "gpu0, mlx5_0 (ib0), 0000:18:00.0, rail a".
std::string deviceText(const topology::Machine& machine, int device);

} // namespace rondo::tools
