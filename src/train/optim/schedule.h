// Learning rate schedules and rules that scale the rate with the batch.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rondo::training {

/// A learning rate for each step. Steps are counted from 0 over the whole training.
struct Schedule {
  enum class Kind { constant, step, cosine };

  Kind kind = Kind::constant;
  double rate = 0.02;             ///< at the end of the warm-up
  double warmup_rate = 0;         ///< the rate from which the warm-up rises
  std::uint64_t warmup_steps = 0; ///< the last step of the warm-up has `rate`
  std::uint64_t step_length = 1;  ///< step: steps between two reductions of the rate
  double step_factor = 0.1;       ///< step: factor of each reduction
  std::uint64_t total_steps = 1;  ///< cosine: steps of the training
  double least_rate = 0;          ///< cosine: the rate at the end
};

/// Uses sums and products only, so every machine has the same rates.
double rateAt(const Schedule& schedule, std::uint64_t step);

/// How the learning rate is scaled with the batch.
struct ScalingRule {
  std::string_view name, summary;
  /// Returns the rate for a batch of `batch` samples, if `rate` was chosen for `reference` samples.
  /// A warm-up should lead from `rate` to it.
  double (*scaled)(double rate, std::uint64_t batch, std::uint64_t reference);
};
std::span<const ScalingRule> scalingRules();
/// Throws Error(invalid_argument), which lists all rules, for an unknown name.
const ScalingRule& scalingRule(std::string_view name);

struct ScheduleKind {
  std::string_view name, summary;
  Schedule::Kind kind;
};
std::span<const ScheduleKind> scheduleKinds();

/// Throws Error(invalid_argument), which lists all schedules, for an unknown name.
Schedule::Kind scheduleKind(std::string_view name);

} // namespace rondo::training
