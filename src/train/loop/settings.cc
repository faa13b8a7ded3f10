#include "train/loop/settings.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "rondo/detail/hash.h"

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

} // namespace

void check(const TrainOptions& options, int ranks) {
  if (options.model != "mlp") refuse("model \"" + options.model + "\"; there is: mlp");
  if (options.epochs < 1)
    refuse("epochs is " + std::to_string(options.epochs) + ", must be 1 or more");
  if (options.accumulate < 1)
    refuse("accumulate is " + std::to_string(options.accumulate) + ", must be 1 or more");
  if (options.verify_every < 0)
    refuse("verify_every is " + std::to_string(options.verify_every) + ", must be 0 or more");
  const std::int64_t parts = std::int64_t{ranks} * options.accumulate;
  if (options.batch < parts)
    refuse("batch is " + std::to_string(options.batch) + ", must be at least ranks x accumulate, " +
           std::to_string(parts));
  if (!std::isfinite(options.learning_rate) || options.learning_rate < 0)
    refuse("learning_rate is " + text(options.learning_rate) + ", must be 0 or more");
  if (!(options.momentum >= 0 && options.momentum <= 1))
    refuse("momentum is " + text(options.momentum) + ", must be in 0 to 1");
}

Data load(const TrainOptions& options) {
  Data data =
      loadData(options.data.empty() ? defaultDataFolder() : options.data, options.limit_samples);
  if (data.train.size() < static_cast<std::size_t>(options.batch))
    refuse("batch is " + std::to_string(options.batch) + ", but there are only " +
           std::to_string(data.train.size()) + " training samples");
  return data;
}

std::string describe(const TrainOptions& options, const Data& data) {
  std::string lines = "model " + options.model + "\nepochs " + std::to_string(options.epochs) +
                      "\nbatch " + std::to_string(options.batch) + "\naccumulate " +
                      std::to_string(options.accumulate) + "\nlearning_rate " +
                      text(options.learning_rate) + "\nmomentum " + text(options.momentum) +
                      "\nseed " + std::to_string(options.seed) + "\nlimit_samples " +
                      std::to_string(options.limit_samples) + "\nverify_every " +
                      std::to_string(options.verify_every);
  for (const auto& [name, set] : {std::pair{"training", &data.train}, {"test", &data.test}}) {
    lines += std::string("\n") + name + " samples " + std::to_string(set->size()) + " (images " +
             std::to_string(detail::hashBytes(set->images.data(), set->images.size())) +
             ", labels " +
             std::to_string(detail::hashBytes(set->labels.data(), set->labels.size())) + ")";
  }
  return lines;
}

} // namespace rondo::training
