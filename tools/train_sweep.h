// A sweep: several training runs that differ in some settings, and a page that compares them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/train.h"

namespace rondo::tools {

/// A line of a sweep's file: "NAME: options of rondo train".
struct SweepLine {
  std::string name, settings;
};

/// Parses a sweep's file; empty lines and lines that begin with # are skipped. Throws
/// Error(invalid_argument), with the number of the line, for a line without name or options and for
/// a name that occurs twice; and if there is no line at all.
std::vector<SweepLine> sweepLines(std::string_view text);

/// Trains by every line of the file config.sweep, with the config's own options as defaults. Ranks
/// are threads of this process. Writes config.options.report/index.html and config.json after each
/// run. Returns the same exit statuses as runTrain().
int runSweep(const TrainConfig& config);

} // namespace rondo::tools
