// `rondo tune --rules`: measures which algorithms are fastest, and writes them as a rules file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rondo::tools {

struct RulesConfig {
  std::string output;    ///< must not exist
  std::string transport; ///< one, as `rondo bench --transport` takes it
  std::vector<int> ranks;
  std::size_t max_bytes = std::size_t{16} << 20;
};

/// Joins rules files of `rondo bench --rules`, whose columns are equal: their comments and lines in
/// this order, with the line that names the columns once.
std::string joinedRules(const std::vector<std::string>& files);

/// Runs `rondo bench --rules` for each collective that the planner decides (planner::kDecided) and
/// each number of ranks, and joins their files. Prints the number of rules of each. If a benchmark
/// fails or finds a wrong result, writes nothing. Returns the exit status of the first one that
/// failed, or 0. Throws Error(invalid_argument) if the output exists or a launcher has started this
/// process, and Error(system) if the file cannot be written.
int tuneRules(const RulesConfig& config);

} // namespace rondo::tools
