// Writes the lines of the metrics file, and cuts it where a resumed run continues.
#include "train/report/metrics.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>

#include "base/read_file.h"
#include "rondo/error.h"
#include "train/report/json.h"

namespace rondo::training {

namespace {

/// The step that a line belongs to. For a line that is no metrics line: a number above all steps.
std::int64_t stepOf(std::string_view line) {
  constexpr std::string_view kName = "\"number\":";
  std::int64_t number = std::numeric_limits<std::int64_t>::max();
  const std::size_t at = line.find(kName);
  if (line.starts_with("{\"kind\":") && line.ends_with('}') && at != std::string_view::npos)
    std::from_chars(line.data() + at + kName.size(), line.data() + line.size(), number);
  return number;
}

} // namespace

void cutMetrics(const std::string& path, std::int64_t step) {
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path, fault)) return;
  std::istringstream file(base::readFile(path).value_or(""));
  std::uintmax_t kept = 0;
  // getline() sets eof() on a last line without a newline, which is then cut off.
  for (std::string line; std::getline(file, line) && !file.eof() && stepOf(line) <= step;)
    kept += line.size() + 1;
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
