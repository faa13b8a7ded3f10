// Where a rank runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

/// What a rank told the others of itself when the communicator was made.
struct Place {
  std::string node;          ///< Options::node, else the machine and the network on it
  std::string machine;       ///< what no other machine is called, and no other boot of this one
  std::string host;          ///< the machine's name, for people
  std::uint64_t process = 0; ///< the same for ranks that are threads of one process
  std::vector<int> processors = {}; ///< that the thread may run on which made it; ascending
  /// The system's numbers of the package, the NUMA node and the core (which counts inside its
  /// package) that have all of these; of the last cache that all of them share its first processor,
  /// and its level. -1: they are in several, or nobody knows.
  int package = -1, numa_node = -1, core = -1, cache = -1, cache_level = -1;
};

} // namespace rondo
