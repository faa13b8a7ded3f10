// Machine files: what hwloc's lstopo writes, and beside it what hwloc does not say.
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.h"

namespace rondo::topology {

/// The machine that XML of hwloc 1, 2 or 3 describes (`lstopo --of xml`), with NUMA nodes, caches
/// from level 2 on, and of PCI the bridges, GPUs and network cards. `file` stands in errors and,
/// without a host's name in it, for the machine. Throws Error(invalid_argument) "FILE:LINE: WHY"
/// for what is no XML, of another version, of an unknown type or element, contradicts itself, or is
/// several machines.
Machine parseHwloc(std::string_view xml, const std::string& file);

/// Adds what a links file says to a machine. Its first line is "rondo-links 1", then a line each,
/// '#' begins a comment:
///   nodes NAME...                  a job on several machines like this one
///   nvlink GPU GPU COUNT           direct links between two GPUs
///   nvswitch COUNT GPU GPU...      links of each of these GPUs to switches that join them all
///   rail NAME CARD                 a network of its own, and the card in it
/// Devices are named as `rondo topo` names them, or by an alias. Throws Error(invalid_argument)
/// "FILE:LINE: WHY".
void addLinks(Machine& machine, std::string_view text, const std::string& file);

/// A machine file with the links file beside it, if there is one: NAME.links of NAME.xml. Throws as
/// these two, and Error(system) for a file that cannot be read.
Machine readMachine(const std::string& path);

} // namespace rondo::topology
