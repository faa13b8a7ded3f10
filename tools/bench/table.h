// Prints the benchmark's table, in the columns that scripts for nccl-tests parse.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/config.h"
#include "tools/bench/result.h"

namespace rondo::tools {

/// What the header above all tables shows.
struct Environment {
  std::string version;
  std::string host, processor; ///< of rank 0
  int cores = 0;               ///< online
  int ranks = 1, nodes = 1;
  std::string kind;      ///< "processes", "threads", or the launcher's name
  std::string transport; ///< from rank 0 to the others, such as "shm" or "shm, tcp"
  std::string gpu;       ///< of rank 0; empty: buffers are in host memory
};

/// Describes this machine.
Environment describeMachine();

std::string headerText(const BenchConfig& config, const Environment& environment);
/// Column titles of one algorithm's table.
std::string titleText(const BenchConfig& config, const std::string& algorithm);
std::string rowText(const Row& row);
/// Number of wrong results, and average busbw.
std::string footerText(const BenchConfig& config, const TableResult& table);

} // namespace rondo::tools
