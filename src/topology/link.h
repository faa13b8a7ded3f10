// Describes how near two places of a machine, or of a job, are to each other.
#pragma once

#include <string>

#include "topology/machine.h"

namespace rondo::topology {

/// From the nearest to the farthest, for pairs of processors and for pairs of devices.
enum class LinkClass : std::uint8_t {
  self,
  process,      ///< threads of one process
  core,         ///< hardware threads of one core
  cache,        ///< a cache is shared
  nvlink,       ///< GPUs connected directly or by NVSwitch
  pcie_switch,  ///< devices below one PCIe bridge
  host_bridge,  ///< devices below one PCIe root
  socket,       ///< one package, no shared cache; devices below different PCIe roots near it
  cross_socket, ///< between packages
  machine,      ///< one machine, positions unknown
  rail,         ///< different machines whose cards are in the same rail
  network,      ///< different machines
};

struct Link {
  LinkClass kind = LinkClass::self;
  int number = 0;        ///< cache: its level; NVLink: links of each GPU
  bool switched = false; ///< NVLink: through NVSwitch
  std::string rail = {};

  bool operator==(const Link&) const = default;
};

/// A code of at most six characters, for tables: "L3", "NV18", "PIX".
std::string code(const Link& link);
/// The link in words: "an L3 cache is shared".
std::string meaning(const Link& link);

/// Link between two objects of a machine, given by their indices in Machine::objects. Each is a
/// GPU, a card, a core or a processor.
Link linkBetween(const Machine& machine, int a, int b);
/// Link between two sets of processors of one machine. The class is `machine` if one of the sets
/// spans several packages.
Link linkBetween(const Machine& machine, const Processors& a, const Processors& b);

} // namespace rondo::topology
