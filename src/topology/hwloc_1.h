// Converts the XML of hwloc 1 into that of hwloc 2.
#pragma once

#include <string>

#include "base/xml.h"

namespace rondo::topology {

using base::complain;
using Element = base::XmlElement;

/// Converts the elements of a file without a version, as hwloc 1 wrote it, into version 2's names
/// and order: Socket becomes Package, the name of a Cache gets its level, and a NUMANode, which
/// in version 1 contains its processors, is placed next to them. Unknown elements stay; the
/// reader of version 2 refuses them. Throws Error(invalid_argument) "FILE:LINE: WHY" for a System
/// of several machines.
Element fromVersion1(Element topology, const std::string& file);

} // namespace rondo::topology
