// The learning rate of each step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rondo::training {

/// Steps are counted from 0 over the whole training.
struct Schedule {
  enum class Kind { constant, step, cosine };

  Kind kind = Kind::constant;
  double rate = 0.02;             ///< at the end of the warm-up
  double warmup_rate = 0;         ///< from which the warm-up climbs
  std::uint64_t warmup_steps = 0; ///< the last of them has `rate`
  std::uint64_t step_length = 1;  ///< step: after each so many steps the rate ...
  double step_factor = 0.1;       ///< step: ... is multiplied by this
  std::uint64_t total_steps = 1;  ///< cosine: of the training; the rate falls from `rate` ...
  double least_rate = 0;          ///< cosine: ... towards this along half a wave
};

/// Made of sums and products only: every machine has the same rates.
double rateAt(const Schedule& schedule, std::uint64_t step);

/// How a rate follows the batch.
struct ScalingRule {
  std::string_view name, summary;
  /// The rate for a batch of `batch` samples where `rate` was found with `reference`. Meant to be
  /// reached by a warm-up from `rate`.
  double (*scaled)(double rate, std::uint64_t batch, std::uint64_t reference);
};
std::span<const ScalingRule> scalingRules();
/// Error(invalid_argument) that lists the names for any other.
const ScalingRule& scalingRule(std::string_view name);

struct ScheduleKind {
  std::string_view name, summary;
  Schedule::Kind kind;
};
std::span<const ScheduleKind> scheduleKinds();

/// Error(invalid_argument) that lists the names for any other.
Schedule::Kind scheduleKind(std::string_view name);

} // namespace rondo::training
