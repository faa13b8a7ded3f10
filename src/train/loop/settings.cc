#include "train/loop/settings.h"

#include <array>
#include <cmath>
#include <concepts>
#include <cstdio>

#include "rondo/detail/hash.h"
#include "train/loop/hooks.h"
#include "train/optim/schedule.h"

namespace rondo::training {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

std::string text(double value) {
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%.17g", value);
  return digits.data();
}

void atLeast(const std::string& name, std::int64_t value, std::int64_t least) {
  if (value < least)
    refuse(name + " is " + std::to_string(value) + ", must be " + std::to_string(least) +
           " or more");
}

void atLeastZero(const std::string& name, double value) {
  if (!std::isfinite(value) || value < 0)
    refuse(name + " is " + text(value) + ", must be 0 or more");
}

/// "name value" lines.
class Lines {
 public:
  void add(const std::string& name, const std::string& value) {
    text_ += (text_.empty() ? "" : "\n") + name + " " + value;
  }
  void add(const std::string& name, double value) { add(name, training::text(value)); }
  template <std::integral Number>
  void add(const std::string& name, Number value) {
    add(name, std::to_string(value));
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

void addSet(Lines& lines, const std::string& name, const Dataset& set) {
  const auto hash = [](const auto& bytes) {
    return std::to_string(detail::hashBytes(bytes.data(), bytes.size()));
  };
  lines.add(name + " samples", std::to_string(set.size()) + " (images " + hash(set.images) +
                                   ", labels " + hash(set.labels) + ")");
}

} // namespace

void check(const TrainOptions& options, int ranks) {
  if (options.device == "cuda")
    throw Error(ErrorCode::unsupported, "train: device cuda: the layers run on the CPU only");
  if (options.device != "cpu") refuse("device \"" + options.device + "\"; there is: cpu");
  atLeast("epochs", options.epochs, 1);
  atLeast("steps", options.steps, 0);
  atLeast("accumulate", options.accumulate, 1);
  atLeast("warm_up", options.warm_up, 0);
  atLeast("verify_every", options.verify_every, 0);
  atLeast("checkpoint_every", options.checkpoint_every, 0);
  const std::int64_t parts = std::int64_t{ranks} * options.accumulate;
  if (options.batch < parts)
    refuse("batch is " + std::to_string(options.batch) + ", must be at least ranks x accumulate, " +
           std::to_string(parts));
  atLeastZero("learning_rate", options.learning_rate);
  atLeastZero("weight_decay", options.weight_decay);
  atLeastZero("clip", options.clip);
  if (!(options.momentum >= 0 && options.momentum <= 1))
    refuse("momentum is " + text(options.momentum) + ", must be in 0 to 1");
  if (options.bucket_bytes.empty()) refuse("bucket_bytes is empty");
  if (options.checkpoint.empty() && (options.resume || options.checkpoint_every > 0))
    refuse(std::string(options.resume ? "resume" : "checkpoint_every") + " without a checkpoint");
  makeHook(options.hook);
  scheduleKind(options.schedule);
}

Data load(const TrainOptions& options) {
  Data data =
      loadData(options.data.empty() ? defaultDataFolder() : options.data, options.limit_samples);
  if (data.train.size() < static_cast<std::size_t>(options.batch))
    refuse("batch is " + std::to_string(options.batch) + ", but there are only " +
           std::to_string(data.train.size()) + " training samples");
  return data;
}

std::string identity(const TrainOptions& options, const Data& data) {
  Lines lines;
  lines.add("model", options.model);
  lines.add("batch", options.batch);
  lines.add("seed", options.seed);
  lines.add("augment", int{options.augment});
  lines.add("optimizer", options.optimizer);
  lines.add("hook", options.hook);
  if (options.hook != "none") // what hooks keep belongs to buckets
    for (std::size_t bytes : options.bucket_bytes) lines.add("bucket_bytes", bytes);
  addSet(lines, "training", data.train);
  return lines.text();
}

std::string describe(const TrainOptions& options, const Data& data) {
  Lines lines, test;
  lines.add("epochs", options.epochs);
  lines.add("steps", options.steps);
  lines.add("accumulate", options.accumulate);
  lines.add("learning_rate", options.learning_rate);
  lines.add("momentum", options.momentum);
  lines.add("weight_decay", options.weight_decay);
  lines.add("clip", options.clip);
  lines.add("schedule", options.schedule);
  lines.add("warm_up", options.warm_up);
  lines.add("limit_samples", options.limit_samples);
  for (std::size_t bytes : options.bucket_bytes) lines.add("bucket_bytes", bytes);
  lines.add("overlap", int{options.overlap});
  lines.add("verify_every", options.verify_every);
  lines.add("checkpoint", int{!options.checkpoint.empty()});
  lines.add("checkpoint_every", options.checkpoint_every);
  lines.add("resume", int{options.resume});
  addSet(test, "test", data.test);
  return lines.text() + "\n" + identity(options, data) + "\n" + test.text();
}

} // namespace rondo::training
