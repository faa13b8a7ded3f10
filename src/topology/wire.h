// Encodes machines, so that ranks can exchange them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "topology/machine.h"

namespace rondo::topology {

/// Encodes all but what only files define: rails, nodes and the speeds of links.
std::vector<std::byte> encoded(const Machine& machine);
/// Throws Error(transport) if the bytes do not encode a machine.
Machine decodedMachine(std::span<const std::byte> bytes);

} // namespace rondo::topology
