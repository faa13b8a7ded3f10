// chain: the ranks form a chain that starts at the root, and pass the data along it.
//
// Broadcast: every rank keeps what it receives and passes it on in the same step. Reduce: from the
// far end to the root, every rank adds its own input. One message takes p-1 rounds, but tiles are
// pipelined, so a large message takes hardly longer than on a single link.
//
// Time: (p-1) alpha + n beta, once the pipeline is full; Reduce adds n gamma.
#include "plan/builder.h"
#include "plan/near.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::broadcast || spec.collective == Collective::reduce);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  if (spec.ranks == 1) return 0;
  const double gamma = spec.collective == Collective::reduce ? link.gamma : 0;
  return (spec.ranks - 1) * link.alpha + bytes * (link.beta + gamma);
}

ClosedForm closedForm(const Spec& spec) {
  const int others = spec.ranks - 1;
  return {others, static_cast<double>(others), others > 0 ? 1.0 : 0.0};
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const bool root = rank == spec.root, last = wrap(rank + 1, p) == spec.root;
  const int towards = wrap(rank - 1, p), away = wrap(rank + 1, p); // the root
  Builder plan(spec, rank);
  auto lane = plan.lane();
  if (spec.collective == Collective::broadcast) {
    auto step = root ? lane.copy(in(0), out(0)) : lane.recv(towards, out(0));
    if (!last) step.send(away);
  } else {
    auto step = lane.step().with(in(0));
    if (!last) step.recv(away);
    if (root) step.to(out(0));
    else step.send(towards);
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm chain;
const plan::Algorithm chain{
    .name = "chain",
    .summary = "the ranks form a chain and pass the data along it",
    .supports = supports,
    .cost = cost,
    .closedForm = nearForm<closedForm>,
    .build = nearPlan<build>,
};

} // namespace rondo::algorithms
