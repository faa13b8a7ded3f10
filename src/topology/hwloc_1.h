// Files of hwloc 1, as hwloc 2 would write them.
#pragma once

#include <string>

#include "topology/xml.h"

namespace rondo::topology {

/// The elements of a file without a version, which hwloc 1 wrote, with version 2's names and order:
/// Socket is Package, Cache has its level in its name, and a NUMANode, around processors in version
/// 1, is beside them. What it does not know it leaves for the reader of version 2 to refuse. Throws
/// Error(invalid_argument) "FILE:LINE: WHY" for a System of several machines.
Element fromVersion1(Element topology, const std::string& file);

} // namespace rondo::topology
