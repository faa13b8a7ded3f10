// Validates options, and lists them as names and values.
#include "train/loop/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "rondo/detail/writable.h"
#include "train/data/sampler.h"
#include "train/layers/compute.h"
#include "train/loop/elastic.h"
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

void checkRange(const TrainOption& option, const TrainOptions& options) {
  if (option.range == TrainRange()) return;
  option.read(options, [&]<class Value>(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      const double least = option.range.least, most = option.range.most;
      const auto number = static_cast<double>(value);
      if (std::isfinite(number) && least <= number && number <= most) return;
      const std::string in = std::is_floating_point_v<Value> ? "in " : "";
      const std::string valid =
          std::isfinite(most) ? in + text(least) + " to " + text(most) : text(least) + " or more";
      refuse(std::string(option.name) + " is " + option.texts(options).front() + ", must be " +
             valid);
    }
  });
}

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

void checkStragglers(const TrainOptions::Stragglers& stragglers, int ranks) {
  const auto checkFactor = [](const std::string& of, double factor) {
    if (!std::isfinite(factor) || factor < 1)
      refuse("the factor of " + of + " is " + text(factor) + ", must be 1 or more");
  };
  for (const TrainSlowRank& one : stragglers.slow) {
    if (one.rank < 0 || one.rank >= ranks)
      refuse("slow names rank " + std::to_string(one.rank) + ", there are 0 to " +
             std::to_string(ranks - 1));
    checkFactor("slow", one.factor);
  }
  const TrainJitter& jitter = stragglers.jitter;
  if (!(jitter.probability >= 0 && jitter.probability <= 1))
    refuse("the probability of jitter is " + text(jitter.probability) + ", must be in 0 to 1");
  checkFactor("jitter", jitter.factor);
}

/// Two options must not name the same file: one output would overwrite the other.
void checkFiles(const TrainOptions& options) {
  std::vector<std::pair<std::string_view, std::string>> files; ///< with their options
  for (const TrainOption& option : trainOptionTable()) {
    if (option.unit != TrainUnit::file || !option.isSet(options)) continue;
    const std::string file = option.texts(options).front();
    for (const auto& [owner, other] : files)
      if (detail::sameFile(file, other))
        refuse(std::string(owner) + " and " + std::string(option.name) +
               " name the same file: " + file);
    files.emplace_back(option.name, file);
  }
}

void checkNeeds(const TrainOptions& options) {
  const auto table = trainOptionTable();
  for (const TrainOption& option : table) {
    if (option.needs.empty() || !option.isSet(options)) continue;
    const auto needed = std::ranges::find(table, option.needs, &TrainOption::name);
    if (!needed->isSet(options))
      refuse(std::string(option.name) + " needs " + std::string(option.needs));
  }
}

void checkOptimizer(const TrainOptions::Optimizer& optimizer) {
  const TrainOptions::Optimizer defaults;
  if (optimizer.nesterov && optimizer.name != "sgd")
    refuse("nesterov is for optimizer sgd, not " + optimizer.name);
  if (optimizer.momentum != defaults.momentum && optimizer.name == "adamw")
    refuse("momentum is for optimizers sgd and lars, not adamw");
  if (optimizer.scaling != defaults.scaling && optimizer.base_batch == 0)
    refuse("scaling is " + optimizer.scaling +
           ", but without base_batch (--scale-lr) the learning rate is not scaled");
}

void checkFolds(const TrainOptions::Folds& folds) {
  if (folds.count == 1) refuse("folds is 1, must be 2 or more, or 0 for none");
  if (folds.count > 0 && (folds.number < 1 || folds.number > folds.count))
    refuse("fold is " + std::to_string(folds.number) + ", must be 1 to " +
           std::to_string(folds.count));
}

} // namespace

void check(const TrainOptions& options, int ranks) {
  computeOf(options.device, options.precision, 0);
  for (const TrainOption& option : trainOptionTable()) checkRange(option, options);
  checkStragglers(options.stragglers, ranks);
  checkOptimizer(options.optimizer);
  if (options.gradients.bucket_bytes.empty()) refuse("bucket_bytes is empty");
  checkFolds(options.folds);
  checkNeeds(options);
  checkFiles(options);
  makeHook(options.gradients.hook);
  scheduleKind(options.optimizer.schedule);
  scalingRule(options.optimizer.scaling);
  remainderOf(options.remainder);
  strategyFor(options, ranks);
  checkElastic(options, ranks);
}

Data load(const TrainOptions& options) {
  Data data =
      loadData(options.data, options.limit_samples, {options.folds.number, options.folds.count});
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

void add(Settings& list, std::string_view name, const std::vector<std::string>& values) {
  for (const std::string& value : values) list.emplace_back(name, value);
}

/// Whether an option with this text in TrainOption::presence is set.
bool isPresent(std::string_view presence, const TrainOptions& options) {
  return std::ranges::any_of(trainOptionTable(), [&](const TrainOption& option) {
    return option.presence == presence && option.isSet(options);
  });
}

/// Settings that must be equal on all ranks, except the data.
Settings settings(const TrainOptions& options) {
  Settings list;
  std::set<std::string_view> presences;
  for (const TrainOption& option : trainOptionTable()) {
    if (!option.presence.empty()) {
      if (presences.insert(option.presence).second)
        add(list, option.presence, {isPresent(option.presence, options) ? "yes" : "no"});
    } else if (option.agreed) {
      add(list, option.name, option.texts(options));
    }
    if (!option.kept_name.empty() && option.kept(options))
      add(list, option.kept_name, option.texts(options));
  }
  return list;
}

} // namespace

std::string identity(const TrainOptions& options, const Data& data) {
  Settings list;
  for (const TrainOption& option : trainOptionTable())
    if (option.kept != nullptr && option.kept(options))
      add(list, option.kept_name.empty() ? option.name : option.kept_name, option.texts(options));
  add(list, "training samples", {hashed(data.train)});
  return lines(list);
}

std::string describe(const TrainOptions& options, const Data& data) {
  Settings list = settings(options);
  add(list, "training samples", {hashed(data.train)});
  add(list, "test samples", {hashed(data.test)});
  return lines(list);
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
  Settings list = settings(options);
  std::map<std::string, std::size_t> counts, seen;
  for (auto& [name, value] : list) {
    std::replace(name.begin(), name.end(), '_', ' ');
    ++counts[name];
  }
  for (auto& [name, value] : list) {
    const std::size_t i = seen[name]++;
    name = entryName(name, i, counts[name]);
  }
  add(list, "training samples", {sized(data.train)});
  add(list, "test samples", {sized(data.test)});
  return list;
}

} // namespace rondo::training
