// Writes the lines of the metrics file, and cuts it where a resumed run continues.
#include "train/report/metrics.h"

#include <fcntl.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>

#include "base/above_streams.h"
#include "rondo/error.h"
#include "train/report/json.h"

namespace rondo::training {

namespace {

/// The step that a line, which ends with a newline, belongs to. For a line that is no metrics line:
/// a number above all steps.
std::int64_t stepOf(std::string_view line) {
  constexpr std::string_view kName = "\"number\":";
  std::int64_t number = std::numeric_limits<std::int64_t>::max();
  const std::size_t at = line.find(kName);
  if (line.starts_with("{\"kind\":") && line.ends_with("}\n") && at != std::string_view::npos)
    std::from_chars(line.data() + at + kName.size(), line.data() + line.size(), number);
  return number;
}

} // namespace

void cutMetrics(const std::string& path, std::int64_t step) {
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path, fault)) return;
  const int fd = base::aboveStreams(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::unique_ptr<std::FILE, TextFile::Close> file(fd < 0 ? nullptr : ::fdopen(fd, "r"));
  std::uintmax_t kept = 0;
  std::string line; // a last line without a newline is cut off
  for (int c; file && (c = ::getc_unlocked(file.get())) != EOF;) {
    line += static_cast<char>(c);
    if (c != '\n') continue;
    if (stepOf(line) > step) break;
    kept += line.size();
    line.clear();
  }
  if (!file || std::ferror(file.get()) != 0)
    throw Error(ErrorCode::system, path + ": could not be read");
  std::filesystem::resize_file(path, kept, fault);
  if (fault) throw Error(ErrorCode::system, path + ": could not be written: " + fault.message());
}

std::string metricsLine(const StepRecord& step) {
  return JsonObject()
      .add("kind", "step")
      .add("number", step.number)
      .add("epoch", step.epoch)
      .add("step", step.step)
      .add("loss", step.loss)
      .add("learning_rate", step.learning_rate)
      .add("samples_per_second", step.samples_per_second)
      .add("ms", JsonObject()
                     .add("step", step.times.step)
                     .add("data", step.times.data)
                     .add("forward", step.times.forward)
                     .add("backward", step.times.backward)
                     .add("communication", step.times.communication)
                     .add("optimizer", step.times.optimizer))
      .str();
}

std::string metricsLine(const EpochRecord& epoch) {
  return JsonObject()
      .add("kind", "epoch")
      .add("epoch", epoch.epoch)
      .add("number", epoch.last_step)
      .add("loss", epoch.loss)
      .add("test_accuracy", epoch.test_accuracy)
      .add("seconds", epoch.seconds)
      .str();
}

} // namespace rondo::training
