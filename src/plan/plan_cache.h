// Keeps a rank's plans and their facts, so that a new count of a known collective builds no plan.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "plan/facts.h"
#include "plan/plan.h"

namespace rondo::plan {

/// An algorithm's plan for one spec, on one rank, and its facts.
class Planned {
 public:
  Planned(const Algorithm& algorithm, const Spec& spec, int rank)
      : facts(algorithm, spec), algorithm_(&algorithm), spec_(spec), rank_(rank) {}

  /// The rank's plan, built on first use.
  const RankPlan& plan();
  Facts facts;

 private:
  const Algorithm* algorithm_;
  Spec spec_;
  int rank_;
  std::optional<RankPlan> plan_;
};

/// One cache per rank of a communicator. Not thread-safe.
class PlanCache {
 public:
  explicit PlanCache(int rank) : rank_(rank) {}

  /// The reference is valid until the next call with a new spec or algorithm.
  Planned& of(const Algorithm& algorithm, const Spec& spec);

 private:
  /// Programs use few algorithms, but may use every rank as root. A plan takes some kilobytes.
  static constexpr std::size_t kMost = 256;
  using Key = std::pair<const Algorithm*, Spec>;

  const int rank_;
  std::map<Key, Planned> planned_;
};

} // namespace rondo::plan
