// Runs the benchmark: finds or starts the ranks, measures all rows, prints and writes the results.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/config.h"

namespace rondo::tools {

/// Returns the exit status: 0; 1 if a result was wrong; 2 for invalid arguments; 3 for any other
/// error; or what spawnRanks() returns.
int runBench(const BenchConfig& config);

/// What `rondo bench WORDS` would run. Throws Error(invalid_argument) for words that the command
/// refuses, and for those that ask for its help. Tests use it; the command parses these words with
/// those of the other commands.
BenchConfig parseBench(const std::vector<std::string>& words);

} // namespace rondo::tools
