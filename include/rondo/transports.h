// The ways to move bytes between ranks that this build has.
#pragma once

#include <string>
#include <vector>

#include "rondo/export.h"

namespace rondo {

/// A transport: one way to move bytes between two ranks.
struct TransportInfo {
  std::string name;
  std::string summary;    ///< one line
  bool between_processes; ///< false: only between ranks that are threads of one process
  bool between_devices;   ///< for communicators with Options::device, and for no others
  std::string missing;    ///< why this build does not have it; empty if it does
};

/// Returns all transports that Options::transports may name, also those that this build does not
/// have. First those for host memory, then those between devices; of each the fastest first.
RONDO_API std::vector<TransportInfo> transports();

} // namespace rondo
