// dissemination: Barrier; in round s every rank signals the rank 2^s places further.
//
// A signal means that its sender has received all earlier signals, so after ceil(log2 p) rounds
// every rank knows that all ranks have entered. Receiving and sending is one step; the messages are
// empty.
//
// Time: ceil(log2 p) alpha.
#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::barrier && plain(spec); }

double cost(const Spec& spec, const Link& link, double) {
  return ceilLog2(spec.ranks) * link.alpha;
}

ClosedForm closedForm(const Spec& spec) { return {ceilLog2(spec.ranks), 0, 0}; }

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  Builder plan(spec, rank);
  auto lane = plan.lane();
  auto step = lane.step().with(in(0));
  for (const int distance : bruckDistances(p)) {
    step.send(wrap(rank + distance, p));
    step = lane.recv(wrap(rank - distance, p), out(0));
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm dissemination;
const plan::Algorithm dissemination{
    .name = "dissemination",
    .summary = "in round s every rank signals the rank 2^s places further",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
