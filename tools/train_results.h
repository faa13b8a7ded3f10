// Results of the runs of a sweep or a cross-validation, and the files that they are kept in.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tools/train.h"

namespace rondo::tools {

/// What one run of a sweep gave.
struct SweepResult {
  TrainSweepRun run;
  std::string options;        ///< all options of the run, as trainOptionsText(); "": not known
  std::string parameter_hash; ///< hexadecimal; "" without an end
  /// Whether the run could not be made: wrong options, missing data and the like. (A loss that is
  /// not finite is a result.)
  bool failed = false;
};

/// One line of JSON, and back; a noise scale that is not finite comes back as NaN. Throws
/// Error(data) that says what is wrong with a line.
std::string resultText(const SweepResult& result);
SweepResult resultOf(const std::string& line);

/// A file with a line for each result, which a later job continues. Without a path nothing is kept.
class ResultsFile {
 public:
  /// Reads the results that the file has already. A last line that is incomplete, because a job was
  /// killed while it wrote it, is removed. Throws Error(data), which names file and line, for
  /// anything else that is no result; Error(system) if the file cannot be read or written.
  explicit ResultsFile(std::string path);

  /// The result of this run with these options on so many ranks, or null. Failed runs are not
  /// found: they are made again.
  const SweepResult* find(const std::string& name, const std::string& options, int ranks) const;
  /// Throws Error(system) that names the file.
  void add(const SweepResult& result) const;

 private:
  std::string path_;
  std::map<std::string, SweepResult> known_; ///< by the name of the run
};

/// The sentence for people below the title of a page, and the values in JSON.
struct SweepSummary {
  std::string text;
  std::string best;               ///< name of the run with the highest last accuracy; "": none
  double mean = 0, deviation = 0; ///< of the last accuracies; deviation of a sample (n - 1)
};
/// With `folds`, the sentence says mean and deviation, else which run is the best.
SweepSummary summaryOf(const std::vector<SweepResult>& results, bool folds);

/// Checks, before the first run, that the files of writeResults() and ResultsFile can be written.
void requireResultFiles(const TrainConfig& config);
/// Writes config.options.report/index.html and config.json, where given, with the results so far.
void writeResults(const TrainConfig& config, const std::vector<SweepResult>& results);

} // namespace rondo::tools
