// Several training runs that differ in some settings, or in the fold that they hold out, and a page
// that compares them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rondo/communicator.h"
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

/// The runs of config.sweep, or of all folds. Throws Error(invalid_argument), also for wrong common
/// options of folds.
std::vector<SweepLine> sweepLines(const TrainConfig& config);

/// Checks, before the first run, what every run of a shared config (TrainConfig::shared()) needs.
/// Throws the errors of sweepLines() and requireResultFiles(), and an error if there are too few
/// samples for all folds.
void requireRuns(const TrainConfig& config);

/// Trains by every line of the file config.sweep, one after the other, with the config's own
/// options as defaults. Ranks are threads of this process. Writes the files of writeResults() after
/// each run. Returns the same exit statuses as runTrain(). A wrong line is an error before the
/// first run.
int runSweep(const TrainConfig& config);

/// Collective. Trains each line, or fold, on one rank, on whichever is free; otherwise as
/// runSweep(). A line that cannot be trained is a result that says why, and makes the status
/// kFailure; the others go on.
int shareSweep(Communicator& comm, const TrainConfig& config);

} // namespace rondo::tools
