// Validates options, and lists them as names and values.
#include "train/loop/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <map>

#include "train/data/sampler.h"
#include "train/layers/compute.h"
#include "train/loop/hooks.h"
#include "train/optim/schedule.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

std::string text(double value) {
  std::array<char, 32> digits; // as few digits as identify the value
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
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

/// Names and values, in the order in which they were added.
class List {
 public:
  void add(const std::string& name, const std::string& value) { all_.emplace_back(name, value); }
  void add(const std::string& name, double value) { add(name, text(value)); }
  void add(const std::string& name, bool value) { add(name, std::string(value ? "yes" : "no")); }
  template <std::integral Number>
  void add(const std::string& name, Number value) {
    add(name, std::to_string(value));
  }
  void add(const Settings& other) { all_.insert(all_.end(), other.begin(), other.end()); }
  const Settings& all() const { return all_; }

 private:
  Settings all_;
};

std::string lines(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings)
    text += (text.empty() ? "" : "\n") + name + " " + value;
  return text;
}

std::string sized(const Dataset& set) { return std::to_string(set.size()); }
std::string hashed(const Dataset& set) {
  return sized(set) + " (hash " + std::to_string(set.hash) + ")";
}

} // namespace

namespace {

void checkStragglers(const TrainOptions& options, int ranks) {
  const auto checkFactor = [](const std::string& of, double factor) {
    if (!std::isfinite(factor) || factor < 1)
      refuse("the factor of " + of + " is " + text(factor) + ", must be 1 or more");
  };
  atLeastZero("pace_ms", options.pace_ms);
  for (const TrainSlowRank& one : options.slow) {
    if (one.rank < 0 || one.rank >= ranks)
      refuse("slow names rank " + std::to_string(one.rank) + ", there are 0 to " +
             std::to_string(ranks - 1));
    checkFactor("slow", one.factor);
  }
  if (!(options.jitter.probability >= 0 && options.jitter.probability <= 1))
    refuse("the probability of jitter is " + text(options.jitter.probability) +
           ", must be in 0 to 1");
  checkFactor("jitter", options.jitter.factor);
}

/// Two options must not name the same file: one output would overwrite the other.
void checkFiles(const TrainOptions& options) {
  const std::array<std::pair<std::string_view, std::string_view>, 3> files = {
      {{"checkpoint", options.checkpoint}, {"metrics", options.metrics}, {"trace", options.trace}}};
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      if (!files[i].second.empty() && files[i].second == files[other].second)
        refuse(std::string(files[other].first) + " and " + std::string(files[i].first) +
               " name the same file: " + std::string(files[i].second));
}

} // namespace

void check(const TrainOptions& options, int ranks) {
  computeOf(options.device, options.precision, 0);
  atLeast("epochs", options.epochs, 1);
  atLeast("steps", options.steps, 0);
  atLeast("batch", options.batch, 1);
  atLeast("accumulate", options.accumulate, 1);
  atLeast("base_batch", options.base_batch, 0);
  atLeast("warm_up", options.warm_up, 0);
  atLeast("verify_every", options.verify_every, 0);
  atLeast("checkpoint_every", options.checkpoint_every, 0);
  atLeastZero("learning_rate", options.learning_rate);
  atLeastZero("weight_decay", options.weight_decay);
  atLeastZero("clip", options.clip);
  checkStragglers(options, ranks);
  if (!(options.momentum >= 0 && options.momentum <= 1))
    refuse("momentum is " + text(options.momentum) + ", must be in 0 to 1");
  if (options.nesterov && options.optimizer != "sgd")
    refuse("nesterov with optimizer " + options.optimizer + ", must be sgd");
  if (options.groups < 1 || options.groups > 16)
    refuse("groups is " + std::to_string(options.groups) + ", must be 1 to 16");
  if (options.bucket_bytes.empty()) refuse("bucket_bytes is empty");
  if (options.checkpoint.empty() && (options.resume || options.checkpoint_every > 0))
    refuse(std::string(options.resume ? "resume" : "checkpoint_every") + " without a checkpoint");
  checkFiles(options);
  makeHook(options.hook);
  scheduleKind(options.schedule);
  scalingRule(options.scaling);
  remainderOf(options.remainder);
  strategyFor(options, ranks);
}

Data load(const TrainOptions& options) {
  Data data = loadData(options.data, options.limit_samples);
  if (epochSteps(options, data) == 0)
    refuse("batch is " + std::to_string(options.batch) + ", but there are only " +
           std::to_string(data.train.size()) + " training samples");
  return data;
}

int epochSteps(const TrainOptions& options, const Data& data) {
  return static_cast<int>(Sampler(data.train.size(), static_cast<std::size_t>(options.batch),
                                  options.seed, remainderOf(options.remainder))
                              .steps());
}

std::int64_t totalSteps(const TrainOptions& options, const Data& data) {
  return options.steps > 0 ? options.steps
                           : std::int64_t{options.epochs} * epochSteps(options, data);
}

std::int64_t samplesOf(std::int64_t steps, const TrainOptions& options, const Data& data) {
  if (remainderOf(options.remainder) != Remainder::uneven) return steps * options.batch;
  const auto epoch = static_cast<std::int64_t>(data.train.size());
  const std::int64_t epoch_steps = epochSteps(options, data);
  return steps / epoch_steps * epoch + steps % epoch_steps * options.batch;
}

namespace {

/// Settings that must be equal in the checkpoint and in the resumed run, except the data.
Settings essence(const TrainOptions& options) {
  List list;
  list.add("model", options.model);
  list.add("batch", options.batch);
  list.add("seed", options.seed);
  if (options.remainder != TrainOptions().remainder) list.add("remainder", options.remainder);
  list.add("augment", options.augment);
  list.add("optimizer", options.optimizer);
  list.add("hook", options.hook);
  if (options.hook != "none") // the state of hooks belongs to buckets
    for (std::size_t bytes : options.bucket_bytes) list.add("hook_bucket_bytes", bytes);
  return list.all();
}

Settings settings(const TrainOptions& options) {
  List list;
  list.add("strategy", options.strategy);
  list.add("servers", options.servers);
  list.add("dedicated_servers", options.dedicated_servers);
  list.add("consistency", options.consistency);
  list.add("period", options.period);
  list.add("slow_momentum", options.slow_momentum);
  list.add(essence(options));
  list.add("epochs", options.epochs);
  list.add("steps", options.steps);
  list.add("accumulate", options.accumulate);
  list.add("pipeline", options.pipeline);
  list.add("laps", options.laps);
  list.add("recompute", options.recompute);
  list.add("learning_rate", options.learning_rate);
  list.add("base_batch", options.base_batch);
  list.add("scaling", options.scaling);
  list.add("momentum", options.momentum);
  list.add("nesterov", options.nesterov);
  list.add("weight_decay", options.weight_decay);
  list.add("clip", options.clip);
  list.add("schedule", options.schedule);
  list.add("warm_up", options.warm_up);
  list.add("device", options.device);
  list.add("precision", options.precision);
  list.add("sync_batch_norm", options.sync_batch_norm);
  list.add("pace_ms", options.pace_ms);
  for (const TrainSlowRank& one : options.slow)
    list.add("slow", std::to_string(one.rank) + ":" + text(one.factor));
  list.add("jitter", text(options.jitter.probability) + ":" + text(options.jitter.factor));
  list.add("limit_samples", options.limit_samples);
  for (std::size_t bytes : options.bucket_bytes) list.add("bucket_bytes", bytes);
  list.add("overlap", options.overlap);
  list.add("groups", options.groups);
  list.add("unit_bytes", options.unit_bytes);
  list.add("mesh", options.mesh);
  list.add("memory_limit", options.memory_limit);
  list.add("noise_scale", options.noise_scale);
  list.add("verify_every", options.verify_every);
  list.add("checkpoint", !options.checkpoint.empty());
  list.add("checkpoint_every", options.checkpoint_every);
  list.add("resume", options.resume);
  list.add("report or trace", !(options.report.empty() && options.trace.empty()));
  return list.all();
}

} // namespace

std::string identity(const TrainOptions& options, const Data& data) {
  List list;
  list.add(essence(options));
  list.add("training samples", hashed(data.train));
  return lines(list.all());
}

std::string describe(const TrainOptions& options, const Data& data) {
  List list;
  list.add(settings(options));
  list.add("training samples", hashed(data.train));
  list.add("test samples", hashed(data.test));
  return lines(list.all());
}

namespace {

/// Makes the names of list entries unique: the name of entry `i` of `count`.
std::string entryName(const std::string& name, std::size_t i, std::size_t count) {
  if (count == 1) return name;
  if (!name.ends_with("bucket bytes")) return name + ", " + std::to_string(i + 1);
  return name + (i == 0 ? ", first" : i + 1 == count ? ", others" : ", " + std::to_string(i + 1));
}

} // namespace

Settings shown(const TrainOptions& options, const Data& data) {
  Settings all = settings(options);
  std::map<std::string, std::size_t> counts, seen;
  for (auto& [name, value] : all) {
    std::replace(name.begin(), name.end(), '_', ' ');
    ++counts[name];
  }
  List list;
  for (const auto& [name, value] : all)
    list.add(entryName(name, seen[name]++, counts[name]), value);
  list.add("training samples", sized(data.train));
  list.add("test samples", sized(data.test));
  return list.all();
}

} // namespace rondo::training
