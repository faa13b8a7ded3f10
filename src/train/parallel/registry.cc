// The table of strategies (strategies.def), and which options each strategy accepts.
#include <algorithm>
#include <array>

#include "rondo/error.h"
#include "train/parallel/strategy.h"

namespace rondo::training {

namespace parallel {
#define STRATEGY(x) extern const StrategyKind x;
#include "train/parallel/strategies.def"
#undef STRATEGY
} // namespace parallel

namespace {

constexpr auto kStrategies = std::to_array<const StrategyKind*>({
#define STRATEGY(x) &parallel::x,
#include "train/parallel/strategies.def"
#undef STRATEGY
});

template <auto kOption>
bool isSet(const TrainOptions& options) {
  static const TrainOptions kDefaults;
  return options.*kOption != kDefaults.*kOption;
}

/// An option that only some strategies accept.
struct Feature {
  std::string_view name;
  bool (*is_set)(const TrainOptions&); ///< whether it differs from its default
};

constexpr std::array kFeatures = {
    Feature{"uneven remainder",
            [](const TrainOptions& options) { return options.remainder == "uneven"; }},
    Feature{"accumulate", isSet<&TrainOptions::accumulate>},
    Feature{"sync_batch_norm", isSet<&TrainOptions::sync_batch_norm>},
    Feature{"clip", isSet<&TrainOptions::clip>},
    Feature{"bucket_bytes", isSet<&TrainOptions::bucket_bytes>},
    Feature{"overlap", isSet<&TrainOptions::overlap>},
    Feature{"groups", isSet<&TrainOptions::groups>},
    Feature{"hook", isSet<&TrainOptions::hook>},
    Feature{"unit_bytes", isSet<&TrainOptions::unit_bytes>},
    Feature{"mesh", isSet<&TrainOptions::mesh>},
    Feature{"memory_limit", isSet<&TrainOptions::memory_limit>},
    Feature{"noise_scale", isSet<&TrainOptions::noise_scale>},
    Feature{"pipeline", isSet<&TrainOptions::pipeline>},
    Feature{"laps", isSet<&TrainOptions::laps>},
    Feature{"recompute", isSet<&TrainOptions::recompute>},
    Feature{"servers", isSet<&TrainOptions::servers>},
    Feature{"dedicated_servers", isSet<&TrainOptions::dedicated_servers>},
    Feature{"consistency", isSet<&TrainOptions::consistency>},
    Feature{"period", isSet<&TrainOptions::period>},
    Feature{"slow_momentum", isSet<&TrainOptions::slow_momentum>},
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

bool takes(const StrategyKind& kind, std::string_view option) {
  return std::find(kind.takes.begin(), kind.takes.end(), option) != kind.takes.end();
}

/// The names of the strategies for which `wanted` is true: "ddp, local".
template <class Wanted>
std::string names(const Wanted& wanted) {
  std::string text;
  for (const StrategyKind* kind : kStrategies)
    if (wanted(*kind)) text += (text.empty() ? "" : ", ") + std::string(kind->name);
  return text;
}

const StrategyKind& find(const std::string& name) {
  for (const StrategyKind* kind : kStrategies)
    if (kind->name == name) return *kind;
  refuse("strategy \"" + name + "\"; there is: " + names([](const auto&) { return true; }));
}

} // namespace

std::span<const StrategyKind* const> strategies() { return kStrategies; }

const StrategyKind& strategyFor(const TrainOptions& options, int ranks) {
  const StrategyKind& kind = find(options.strategy);
  for (const Feature& feature : kFeatures)
    if (feature.is_set(options) && !takes(kind, feature.name))
      refuse("strategy " + options.strategy + " takes no " + std::string(feature.name) +
             ", which is for: " +
             names([&](const StrategyKind& other) { return takes(other, feature.name); }));
  kind.check(options, ranks);
  return kind;
}

} // namespace rondo::training
