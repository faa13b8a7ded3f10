// Runs the benchmark: finds or starts the ranks, measures all rows, prints and writes the results.
#pragma once

#include "tools/bench/config.h"

namespace rondo::tools {

/// Returns the exit status: 0; 1 if a result was wrong; 2 for invalid arguments; 3 for any other
/// error; or what spawnRanks() returns.
int runBench(const BenchConfig& config);

} // namespace rondo::tools
