// Computes learning rates with arithmetic that is the same on all machines; std::cos may differ in
// the last bit.
#include "train/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "train/named.h"
#include "train/optim/power.h"

namespace rondo::training {

namespace {

/// (1 + cos(pi x)) / 2 for x in [0, 1], which is cos^2(pi x / 2), by the power series of the
/// cosine. The error of the series is below 1e-16 on this interval.
double halfWave(double x) {
  constexpr double kHalfPi = 1.57079632679489661923;
  const double square = (kHalfPi * x) * (kHalfPi * x);
  double sum = 1;
  for (int n = 22; n >= 2; n -= 2) sum = 1 - sum * square / (n * (n - 1));
  return sum * sum;
}

} // namespace

double rateAt(const Schedule& schedule, std::uint64_t step) {
  if (step < schedule.warmup_steps) {
    const double part = static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
    return schedule.warmup_rate + (schedule.rate - schedule.warmup_rate) * part;
  }
  switch (schedule.kind) {
    case Schedule::Kind::constant: return schedule.rate;
    case Schedule::Kind::step:
      return schedule.rate *
             power(schedule.step_factor, step / std::max<std::uint64_t>(schedule.step_length, 1));
    case Schedule::Kind::cosine: break;
  }
  if (step >= schedule.total_steps) return schedule.least_rate;
  const double part = static_cast<double>(step - schedule.warmup_steps) /
                      static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  return schedule.least_rate + (schedule.rate - schedule.least_rate) * halfWave(part);
}

std::span<const ScalingRule> scalingRules() {
  static constexpr auto kTimes = [](std::uint64_t batch, std::uint64_t reference) {
    return static_cast<double>(batch) / static_cast<double>(reference);
  };
  static constexpr auto kRules =
      std::to_array<ScalingRule>({{"linear", "in proportion to the batch: Goyal et al., 2017",
                                   [](double rate, std::uint64_t batch, std::uint64_t reference) {
                                     return rate * kTimes(batch, reference);
                                   }},
                                  {"sqrt", "with the square root of the batch: Krizhevsky, 2014",
                                   [](double rate, std::uint64_t batch, std::uint64_t reference) {
                                     return rate * std::sqrt(kTimes(batch, reference));
                                   }}});
  return kRules;
}

const ScalingRule& scalingRule(std::string_view name) {
  return named(scalingRules(), "scaling", name);
}

std::span<const ScheduleKind> scheduleKinds() {
  using Kind = Schedule::Kind;
  static constexpr auto kKinds = std::to_array<ScheduleKind>(
      {{"constant", "the same in all steps", Kind::constant},
       {"step", "divided by 10 after each third of the steps", Kind::step},
       {"cosine", "half a cosine wave down to 0 at the end", Kind::cosine}});
  return kKinds;
}

Schedule::Kind scheduleKind(std::string_view name) {
  return named(scheduleKinds(), "schedule", name).kind;
}

} // namespace rondo::training
