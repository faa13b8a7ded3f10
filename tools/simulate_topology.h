// Places simulated ranks on described machines.
#pragma once

#include <string>

#include "plan/layout.h"
#include "tools/plan_network.h"

namespace rondo::tools {

/// Fills machines like that of the file with ranks, one on each GPU, or on each core of a machine
/// without GPUs, and sets kinds and speeds of links, as far as the file gives them and the options
/// do not. GPUs are linked by NVLink if all pairs of those that ranks use are. Returns the nodes of
/// the ranks. `nodes`: number of machines; 0: as many as the file names. Throws the errors of
/// topology::readMachine(), and Error(invalid_argument) if there are fewer places than ranks.
plan::Layout placeOn(const std::string& file, int nodes, int ranks, const NetworkConfig& options,
                     PlannedNetwork& network);

} // namespace rondo::tools
