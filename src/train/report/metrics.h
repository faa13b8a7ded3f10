// Writes a run's metrics as JSONL, one JSON object per line, for other programs to follow.
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

/// Removes all lines of steps after `step` from the file, if it exists, since a run that is resumed
/// there writes them again. A run that was killed may have written more steps, and part of a line.
/// Throws Error(system), which names the file, if that fails.
void cutMetrics(const std::string& path, std::int64_t step);

/// The metrics file of a run. Lines are in the file at the end of each epoch, and after flush() and
/// close(). Errors as of TextFile.
class MetricsFile {
 public:
  /// A resumed run appends to the file (TextFile::Begin::behind).
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
