// Whether an algorithm can serve a call.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "plan/plan_cache.h"
#include "plan/registry.h"
#include "planner/choose.h"

namespace rondo::planner {

class Suitability {
 public:
  /// All arguments must outlive it. `bytes`: of a block, or kUneven.
  Suitability(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
              plan::PlanCache& plans);

  /// The reason why it cannot serve the call; empty if it can.
  std::string_view objection(const plan::Choice& choice) const;
  /// Whether the user excludes algorithms of this collective, and whether this one.
  bool excludes() const { return !rest_.empty(); }
  bool excludes(const plan::Choice& choice) const;
  bool operator()(const plan::Choice& choice) const {
    return choice.algorithm && objection(choice).empty();
  }

 private:
  const plan::Spec& spec_;
  const bool uneven_, ordered_;
  plan::PlanCache& plans_;
  std::vector<plan::Choice> rest_; ///< those that the user did not exclude; empty: no exclusions
  std::string_view excluded_;      ///< the objection to the others
};

} // namespace rondo::planner
