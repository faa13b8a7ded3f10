// Plans the calls of a communicator: which algorithm serves a call, and its bound plan.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "comm/call.h"
#include "comm/trials.h"
#include "engine/engine.h"
#include "plan/plan_cache.h"
#include "planner/choose.h"
#include "rondo/explanation.h"

namespace rondo::comm {

/// Owns the policy, which does not change, and the plans of this rank. All ranks get the same
/// answers. Any thread may call the const functions.
class CallPlanner {
 public:
  /// `profile`: Options::profile.
  CallPlanner(int rank, int size, planner::Policy policy, std::string profile)
      : rank_(rank),
        size_(size),
        policy_(std::move(policy)),
        profile_(std::move(profile)),
        plans_(rank) {}

  struct Bound {
    engine::BoundPlan plan;
    std::string algorithm; ///< empty for a Send or Recv
  };
  /// Returns the plan of a valid call. Only one thread at a time. Throws if the call cannot be
  /// planned.
  Bound bind(const Call& call, engine::Engine& engine);

  /// The same with this algorithm, whatever the planner says. It must be able to serve the call.
  engine::BoundPlan bind(const Call& call, const plan::Choice& choice, engine::Engine& engine);

  /// Parses the algorithm that a call names. Throws Error(invalid_argument) if it is unknown.
  static plan::Choice parse(const Call& call, std::string_view algorithm);
  /// Throws Error(invalid_argument) if this algorithm, which the call names, cannot do the
  /// collective, and Error(unsupported) if it cannot serve this call. The call must be valid. Only
  /// one thread at a time.
  void requireServes(const Call& call, const plan::Choice& named);

  /// Returns the algorithms to measure before the first call of its kind; nothing if there is only
  /// one. Only one thread at a time.
  std::optional<Contest> contest(const Call& call);
  /// Any thread may use it.
  Trials& trials() { return trials_; }

  /// Null: there is none.
  std::shared_ptr<const planner::RulesFile> rulesFile() const { return policy_.rules_file; }

  /// Predicted duration of the call in seconds, for assumed links. `named`: see sign().
  double predict(const Call& call, const plan::Choice* named) const;
  /// See Communicator.
  Explanation explain(const Call& call) const;
  std::string algorithmFor(Collective collective, std::size_t count, DataType type) const;

 private:
  plan::Spec specOf(const Call& call) const;
  planner::Decision decide(const Call& call, plan::PlanCache& plans) const;

  const int rank_, size_;
  const planner::Policy policy_;
  const std::string profile_;
  plan::PlanCache plans_;
  Trials trials_;
};

} // namespace rondo::comm
