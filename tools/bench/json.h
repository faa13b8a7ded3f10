// Writes the benchmark's results as JSON (-J).
#pragma once

#include <string>
#include <vector>

#include "tools/bench/config.h"
#include "tools/bench/result.h"
#include "tools/bench/table.h"

namespace rondo::tools {

/// One JSON object: version, args, machine, config, results, out_of_bounds, average_bus_bandwidth.
/// Each row of results has size, count, type, redop, root, algorithm, and for out_of_place and
/// in_place: time, alg_bw, bus_bw, nwrong, and min, max, p50, p95, p99 of the time, in
/// microseconds. It never contains environment variables.
std::string jsonText(const BenchConfig& config, const Environment& environment,
                     const std::vector<TableResult>& tables);

/// Checks, before anything is measured, that writeFile() will be able to write. Throws
/// Error(system) that names the option and the file. Changes nothing.
void requireWritable(const std::string& option, const std::string& path);
/// Throws Error(system) that names the file.
void writeFile(const std::string& path, const std::string& text);

} // namespace rondo::tools
