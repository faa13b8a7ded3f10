// Machines as bytes, for ranks that show each other theirs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "topology/machine.h"

namespace rondo::topology {

/// All but rails and nodes, which only files say.
std::vector<std::byte> encoded(const Machine& machine);
/// Throws Error(transport) for bytes that are none.
Machine decodedMachine(std::span<const std::byte> bytes);

} // namespace rondo::topology
