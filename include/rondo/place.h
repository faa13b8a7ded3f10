// Place: where a rank runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

/// What a rank reported about itself when the communicator was made.
struct Place {
  std::string node;          ///< Options::node; if empty, the machine and the network on it
  std::string machine;       ///< unique to this machine and to this boot of it
  std::string host;          ///< name of the machine, for messages
  std::uint64_t process = 0; ///< equal for ranks that are threads of one process
  /// Processors that the thread which made the rank may run on, ascending.
  std::vector<int> processors = {};
  /// The system's numbers of the package, the NUMA node and the core (numbered within its package)
  /// that contain all these processors. `cache`: the cache of the highest level that all of them
  /// share, given as the number of the first processor at it; `cache_level`: that level. -1: they
  /// are spread over several, or it is unknown.
  int package = -1, numa_node = -1, core = -1, cache = -1, cache_level = -1;
};

} // namespace rondo
