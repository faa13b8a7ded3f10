// The benchmark's results as JSON (-J).
#pragma once

#include <string>
#include <vector>

#include "tools/bench/config.h"
#include "tools/bench/result.h"
#include "tools/bench/table.h"

namespace rondo::tools {

/// One object: version, args, machine, config, results (one per row: size, count, type, redop,
/// root, algorithm, out_of_place and in_place with time, alg_bw, bus_bw, nwrong, and of the time
/// min, max, p50, p95, p99 in microseconds), out_of_bounds, average_bus_bandwidth. Never the
/// environment.
std::string jsonText(const BenchConfig& config, const Environment& environment,
                     const std::vector<TableResult>& tables);

/// For what is written at the end: throws Error(system), which names the option and the file, where
/// writeFile() would throw, before anything is measured. Leaves all as it is.
void requireWritable(const std::string& option, const std::string& path);
/// Throws Error(system) naming the file.
void writeFile(const std::string& path, const std::string& text);

} // namespace rondo::tools
