// A training run's figures as JSONL: one JSON object a line, for other programs to follow.
#pragma once

#include <cstdint>
#include <string>

#include "train/report/record.h"
#include "train/report/text_file.h"

namespace rondo::training {

/// {"kind":"step","number":17,"epoch":1,"step":17,"loss":0.52,"learning_rate":0.02,
///  "samples_per_second":51234,"ms":{"step":2.4,"data":0,"forward":0.8,"backward":1.2,
///  "communication":0.1,"optimizer":0.2}}
std::string metricsLine(const StepRecord& step);

/// {"kind":"epoch","epoch":1,"number":468,"loss":0.61,"test_accuracy":0.85,"seconds":1.9}
std::string metricsLine(const EpochRecord& epoch);

/// Cuts a file, if there is one, behind its last line of a step up to this number: what a run that
/// goes on there will not write again. A run that was killed may have written more, and half a
/// line. Error(system) that names the file if that fails.
void cutMetrics(const std::string& path, std::int64_t step);

/// Lines are in the file once an epoch ended, and behind flush() and close(). Errors as of
/// TextFile.
class MetricsFile {
 public:
  /// A run that was resumed goes on behind what its first part wrote.
  MetricsFile(const std::string& path, TextFile::Begin begin) : file_(path, begin) {}

  void add(const StepRecord& step) { file_.write(metricsLine(step) + "\n"); }
  void add(const EpochRecord& epoch) {
    file_.write(metricsLine(epoch) + "\n");
    file_.flush();
  }
  void flush() { file_.flush(); }
  void close() { file_.close(); }

 private:
  TextFile file_;
};

} // namespace rondo::training
