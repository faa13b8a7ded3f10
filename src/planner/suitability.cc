// Says why an algorithm cannot serve a call.
#include "planner/suitability.h"

#include <algorithm>

namespace rondo::planner {

namespace {

std::string_view unsupported(const plan::Algorithm* algorithm, plan::Spec spec) {
  if (spec.multicast) return "does not support it";
  spec.multicast = true;
  return algorithm->supports(spec)
             ? "needs a switch between all ranks' GPUs that was proved when the communicator was "
               "opened, and that reduces this type by this operator"
             : "does not support it";
}

} // namespace

Suitability::Suitability(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                         plan::PlanCache& plans)
    : spec_(spec),
      uneven_(bytes == kUneven),
      ordered_(policy.deterministic && reduces(spec.collective)),
      plans_(plans) {
  if (!plan::excludes(policy.algorithms, spec.collective)) return;
  rest_ = plan::parseAlgorithms(policy.algorithms, spec.collective);
  excluded_ =
      plan::isWish(policy.algorithms) ? "is excluded by NCCL_ALGO" : "is excluded by RONDO_ALGO";
}

bool Suitability::excludes(const plan::Choice& choice) const {
  const auto same = [&](const plan::Choice& one) { return one.algorithm == choice.algorithm; };
  return !rest_.empty() && std::ranges::none_of(rest_, same);
}

std::string_view Suitability::objection(const plan::Choice& choice) const {
  if (excludes(choice)) return excluded_;
  const plan::Spec spec = choice.applied(spec_);
  if (!choice.algorithm->supports(spec)) return unsupported(choice.algorithm, spec);
  if (!uneven_ && !ordered_) return {};
  plan::Facts& facts = plans_.of(*choice.algorithm, spec).facts;
  if (uneven_ && !facts.servesUneven()) return "does not serve blocks of different sizes";
  if (ordered_ && !facts.inRankOrder())
    return "does not reduce in rank order, as deterministic mode demands";
  return {};
}

} // namespace rondo::planner
