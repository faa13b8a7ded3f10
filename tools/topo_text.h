// `rondo topo`: machines, and who sits where on them, as text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/link.h"
#include "topology/machine.h"
#include "topology/seats.h"

namespace rondo::tools {

/// Packages with their memory, caches and cores, and the devices near each; then, for two devices
/// or more, how any two are linked.
std::string machineText(const topology::Machine& machine);

/// A line for each rank: node, processors, GPU, card; then how any two are linked.
std::string seatsText(const topology::Machine& machine, const std::vector<topology::Seat>& seats);

/// A link of two ranks or devices, and what moves data over it, where that is known.
struct Way {
  topology::Link link;
  std::string transport = {};

  std::string text() const; ///< "L3 shm"
};
using Ways = std::function<Way(std::size_t, std::size_t)>;

/// A square table of links under and beside these names, and what its words mean.
std::string linkTable(const std::vector<std::string>& names, const Ways& ways);

/// "gpu0, mlx5_0 (ib0), 0000:18:00.0, rail a": a device in words.
std::string deviceText(const topology::Machine& machine, int device);

} // namespace rondo::tools
