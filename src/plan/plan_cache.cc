// Looks up plans, builds new ones, and evicts old ones.
#include "plan/plan_cache.h"

#include "base/log.h"

namespace rondo::plan {

const RankPlan& Planned::plan() {
  if (!plan_) {
    base::log(LogLevel::trace, "builds its plan of ", algorithm_->name, " for ",
              name(spec_.collective), " of ", spec_.ranks, " ranks");
    plan_ = algorithm_->build(spec_, rank_);
  }
  return *plan_;
}

Planned& PlanCache::of(const Algorithm& algorithm, const Spec& spec) {
  const Key key{&algorithm, spec};
  auto found = planned_.find(key);
  if (found == planned_.end()) {
    if (planned_.size() >= kMost) planned_.clear();
    found = planned_.emplace(key, Planned(algorithm, spec, rank_)).first;
  }
  return found->second;
}

} // namespace rondo::plan
