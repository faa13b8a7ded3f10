// Measures which algorithm serves a call fastest (RONDO_PLANNER=measured).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/call.h"
#include "plan/plan_cache.h"
#include "planner/choose.h"

namespace rondo::comm {

/// What the ranks of a communicator have measured, equal on all of them. A measurement counts for
/// a kind of call: a collective with blocks of a size class, which is more than 2^k and at most
/// 2^(k+1) bytes. The first call of a kind settles it: it either measures, or leaves all later
/// calls of the kind to the planner. Any thread may use it.
class Trials {
 public:
  struct Timed {
    plan::Choice choice;
    double seconds = 0; ///< of the slowest rank, median of the rounds
  };
  /// Prepares a call with the given algorithm. The result runs it until it is done, and throws the
  /// error that it ends with. The call must outlive the result.
  using Prepare = std::function<std::function<void()>(const Call&, const plan::Choice&)>;

  /// The one that calls use, then the others by time; empty if this kind was not measured.
  std::vector<Timed> of(Collective collective, std::size_t bytes) const;

  /// Returns whether calls of this collective can be measured (planner::kDecided), and the type is
  /// valid.
  static bool measurable(const Call& call);
  /// Returns whether calls of this kind are settled.
  bool settled(const Call& call) const;
  /// The next calls of this kind measure nothing.
  void settle(const Call& call);

  /// Keeps the results, and settles the kind.
  void keep(const Call& call, std::vector<Timed> timed);

 private:
  /// A bit for each power of two.
  std::array<std::atomic<std::uint64_t>, kCollectiveCount> settled_{};
  mutable std::mutex mutex_; ///< guards measured_
  std::map<std::pair<Collective, int>, std::vector<Timed>> measured_;
};

/// The algorithms to measure, and the algorithms of the calls that a measurement itself needs.
struct Contest {
  std::vector<plan::Choice> candidates;
  plan::Choice allreduce; ///< for the AllReduce by which ranks compare times
  plan::Choice barrier;   ///< for the barrier before each measurement
  plan::Choice usual;     ///< the algorithm that the planner chooses without measurements
};

/// The candidates for a call of a kind that is not settled; fewer than two if there is nothing to
/// measure. Depends only on what is equal on all ranks.
std::vector<plan::Choice> candidates(const Call& call, const plan::Spec& spec,
                                     const planner::Policy& policy, plan::PlanCache& plans);

/// Sorts by time, but the usual choice comes first if it is as fast within the noise.
void order(std::vector<Trials::Timed>& timed, const plan::Choice& usual);

/// Collective. Waits for this rank's earlier collectives, which may still write to the buffers.
/// Then runs the call with each candidate in several rounds; after each round all ranks drop the
/// same slow ones. Returns those that it did not drop, in order(), equal on all ranks. The contents
/// of both buffers are as before, except that output which the call itself will write is
/// unspecified.
std::vector<Trials::Timed> measure(const Call& call, const Buffers& buffers, const Contest& contest,
                                   const Trials::Prepare& prepare);

} // namespace rondo::comm
