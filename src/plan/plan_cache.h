// A rank's plans and their facts, kept: a new count of a known collective builds nothing.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "plan/facts.h"
#include "plan/plan.h"

namespace rondo::plan {

/// An algorithm's answer to one spec, on one rank.
class Planned {
 public:
  Planned(const Algorithm& algorithm, const Spec& spec, int rank)
      : facts(algorithm, spec), algorithm_(&algorithm), spec_(spec), rank_(rank) {}

  /// The rank's own; built when it is first asked for.
  const RankPlan& plan();
  Facts facts;

 private:
  const Algorithm* algorithm_;
  Spec spec_;
  int rank_;
  std::optional<RankPlan> plan_;
};

/// One per rank of a communicator. Not thread-safe.
class PlanCache {
 public:
  explicit PlanCache(int rank) : rank_(rank) {}

  /// Stays valid until it is asked for something new.
  Planned& of(const Algorithm& algorithm, const Spec& spec);

 private:
  /// Programs use few algorithms, but may use every rank as root: a plan is some kilobytes.
  static constexpr std::size_t kMost = 256;
  using Key = std::pair<const Algorithm*, Spec>;

  const int rank_;
  std::map<Key, Planned> planned_;
};

} // namespace rondo::plan
