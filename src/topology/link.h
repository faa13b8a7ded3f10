// How near two places of a machine, or of a job, are to each other.
#pragma once

#include <string>

#include "topology/machine.h"

namespace rondo::topology {

/// From the nearest to the farthest, among processors and among devices.
enum class LinkClass : std::uint8_t {
  self,
  process,      ///< threads of one process
  core,         ///< hardware threads of one core
  cache,        ///< a cache is shared
  nvlink,       ///< GPUs are linked directly, or by NVSwitch
  pcie_switch,  ///< devices below one PCIe bridge
  host_bridge,  ///< devices below one PCIe root
  socket,       ///< one package, no cache; devices below different PCIe roots near it
  cross_socket, ///< between packages
  machine,      ///< one machine, and nobody knows where
  rail,         ///< different machines whose cards meet in one rail
  network,      ///< different machines
};

struct Link {
  LinkClass kind = LinkClass::self;
  int number = 0;        ///< level of the cache; links of each GPU
  bool switched = false; ///< of NVLink: by NVSwitch
  std::string rail = {};

  bool operator==(const Link&) const = default;
};

/// At most six characters, for tables: "L3", "NV18", "PIX".
std::string code(const Link& link);
/// "share an L3 cache".
std::string meaning(const Link& link);

/// Between two devices of a machine, or a device and processors, or processors: objects of kinds
/// gpu, card, core and processor, by their place in Machine::objects.
Link linkBetween(const Machine& machine, int a, int b);
/// Between sets of processors of one machine; `machine` if one of them is in several packages.
Link linkBetween(const Machine& machine, const Processors& a, const Processors& b);

} // namespace rondo::topology
