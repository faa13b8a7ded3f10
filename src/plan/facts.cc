// Computes facts about all ranks' plans with the checker, Lending and Puts.
#include "plan/facts.h"

#include <algorithm>

#include "plan/check.h"
#include "plan/uneven.h"

namespace rondo::plan {

bool Facts::inRankOrder() {
  if (!in_rank_order_) in_rank_order_ = reducesInRankOrder(buildAll(*algorithm_, spec_));
  return *in_rank_order_;
}

bool Facts::servesUneven() {
  if (!serves_uneven_) serves_uneven_ = plan::servesUneven(buildAll(*algorithm_, spec_));
  return *serves_uneven_;
}

std::uint32_t Facts::mostLanes() {
  if (!most_lanes_) {
    std::size_t most = 0;
    for (const RankPlan& plan : buildAll(*algorithm_, spec_))
      most = std::max(most, plan.lanes.size());
    most_lanes_ = static_cast<std::uint32_t>(most);
  }
  return *most_lanes_;
}

const Lending& Facts::lending(bool scaled, bool uneven) {
  auto& lending = lending_[static_cast<std::size_t>(scaled) + 2 * static_cast<std::size_t>(uneven)];
  if (!lending) lending.emplace(buildAll(*algorithm_, spec_), scaled, uneven);
  return *lending;
}

const Puts& Facts::puts() {
  if (!puts_) puts_.emplace(buildAll(*algorithm_, spec_));
  return *puts_;
}

} // namespace rondo::plan
