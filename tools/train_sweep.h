// A sweep: training runs that differ in some settings, one after the other, and their page.
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

/// Empty lines and those that begin with # are left out. Throws Error(invalid_argument), with the
/// number of the line, for one without a name or options, and for a name that is there twice; and
/// where there is no line at all.
std::vector<SweepLine> sweepLines(std::string_view text);

/// Trains by every line of the file config.sweep on top of the config's own options, ranks being
/// threads of this process, and writes config.options.report/index.html and config.json behind
/// each. Exit status as runTrain().
int runSweep(const TrainConfig& config);

} // namespace rondo::tools
