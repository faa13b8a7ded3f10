// Computes how long a rank sleeps before each step.
#include "train/loop/straggler.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "rondo/detail/hash.h"

namespace rondo::training {

namespace {

double factorOf(const TrainOptions& options, int rank) {
  double factor = 1;
  for (const TrainSlowRank& one : options.stragglers.slow)
    if (one.rank == rank) factor *= one.factor;
  return factor;
}

} // namespace

Straggler::Straggler(const TrainOptions& options, int rank)
    : pace_ms_(options.stragglers.pace_ms),
      factor_(factorOf(options, rank)),
      jitter_(options.stragglers.jitter),
      random_(detail::mix(options.seed + detail::mix(static_cast<std::uint64_t>(rank) + 1))) {}

/// Assumes that the next step computes as long as the last one. A rank that computed nothing cannot
/// be slowed down.
double Straggler::next(const TrainTimes& last) {
  const bool slow = (random_.symmetric() + 1) / 2 < jitter_.probability;
  const double computed = last.data + last.forward + last.backward + last.optimizer;
  if (last.forward == 0) return 0;
  const double length = std::max(pace_ms_, computed) * factor_ * (slow ? jitter_.factor : 1);
  return std::max(0.0, length - computed);
}

void Straggler::sleep(double milliseconds) {
  if (milliseconds > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

} // namespace rondo::training
