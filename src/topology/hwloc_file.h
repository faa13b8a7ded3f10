// Reads machine files: the XML of hwloc's lstopo or of NCCL, and links files with what hwloc does
// not know.
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.h"

namespace rondo::topology {

/// Returns the machine that an XML file of hwloc 1, 2 or 3 describes (`lstopo --of xml`): NUMA
/// nodes, caches from level 2 on, and of PCI devices the bridges, GPUs and network cards. `file` is
/// used in error texts, and as the machine's name if the XML has no host name. Also takes NCCL's
/// topology files (nccl_file.h). Throws Error(invalid_argument) "FILE:LINE: WHY" for text that is
/// not XML, for other versions, unknown types or elements, contradictions, and files of several
/// machines.
Machine parseMachine(std::string_view xml, const std::string& file);

/// Adds the contents of a links file to a machine. The first line is "rondo-links 1"; each other
/// line is one of the following; '#' begins a comment:
///   nodes NAME...                  a job on several machines like this one
///   nvlink GPU GPU COUNT           direct links between two GPUs
///   nvswitch COUNT GPU GPU...      links of each of these GPUs to switches that connect them all
///   rail NAME CARD                 a separate network, and the card that is in it
/// Devices are named as `rondo topo` names them, or by an alias. Throws Error(invalid_argument)
/// "FILE:LINE: WHY".
void addLinks(Machine& machine, std::string_view text, const std::string& file);

/// Reads a machine file, and the links file next to it, if there is one (NAME.links for NAME.xml).
/// Throws what these two functions throw, and Error(system) for a file that cannot be read.
Machine readMachine(const std::string& path);

} // namespace rondo::topology
