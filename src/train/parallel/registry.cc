// The table of strategies (strategies.def), and the check whether one accepts the options of a run.
#include <array>

#include "rondo/error.h"
#include "train/named.h"
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

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: " + what);
}

/// Whether the option has a value that not every strategy accepts.
bool isRestricted(const TrainOption& option, const TrainOptions& options) {
  return option.restricted.empty() ? option.isSet(options)
                                   : option.texts(options).front() == option.restricted;
}

} // namespace

std::span<const StrategyKind* const> strategies() { return kStrategies; }

const StrategyKind& strategyFor(const TrainOptions& options, int ranks) {
  const StrategyKind& kind = named(kStrategies, "strategy", options.strategy);
  for (const TrainOption& option : trainOptionTable()) {
    if (option.isFor(kind.name) || !isRestricted(option, options)) continue;
    const std::string value(option.restricted);
    refuse("strategy " + options.strategy + " takes no " + value + (value.empty() ? "" : " ") +
           std::string(option.name) + ", which is for: " + std::string(option.strategies) +
           std::string(option.otherwise));
  }
  kind.check(options, ranks);
  return kind;
}

} // namespace rondo::training
