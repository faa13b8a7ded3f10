// Says why an algorithm cannot serve a call.
#include "planner/suitability.h"

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
      plans_(plans) {}

std::string_view Suitability::objection(const plan::Choice& choice) const {
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
