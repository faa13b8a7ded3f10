// chain: the ranks form a chain that starts at the root, or at rank 0, and pass the data along it.
//
// Broadcast: every rank keeps what it receives and passes it on in the same step. Reduce: from the
// far end to the root, every rank adds its own input. Scan: from rank 0 on, every rank adds its own
// input to what it receives, keeps the result and passes it on. ExclusiveScan: it keeps what it
// received (in scratch first, since in place the output is the input that it still has to add), and
// passes on the result. One message takes p-1 rounds, but tiles are
// pipelined, so a large message takes hardly longer than on a single link.
//
// Time: (p-1) alpha + n beta, once the pipeline is full; reductions add n gamma.
#include "plan/builder.h"
#include "plan/near.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::broadcast || spec.collective == Collective::reduce ||
          spec.collective == Collective::scan || spec.collective == Collective::exclusivescan);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  if (spec.ranks == 1) return 0;
  const bool adds =
      spec.collective == Collective::exclusivescan ? spec.ranks > 2 : reduces(spec.collective);
  const double gamma = adds ? link.gamma : 0;
  return (spec.ranks - 1) * link.alpha + bytes * (link.beta + gamma);
}

ClosedForm closedForm(const Spec& spec) {
  const int others = spec.ranks - 1;
  return {others, static_cast<double>(others), others > 0 ? 1.0 : 0.0};
}

void exclusiveScan(LaneWriter lane, int rank, bool last) {
  if (rank == 0) {
    lane.send(in(0), 1);
  } else if (last) {
    lane.recv(rank - 1, out(0));
  } else {
    lane.recv(rank - 1, scratch(0));
    lane.step().with(scratch(0)).with(in(0)).send(rank + 1);
    lane.copy(scratch(0), out(0));
  }
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const int start = hasRoot(spec.collective) ? spec.root : 0;
  const bool root = rank == start, last = wrap(rank + 1, p) == start;
  const int towards = wrap(rank - 1, p), away = wrap(rank + 1, p); // the root
  Builder plan(spec, rank);
  auto lane = plan.lane();
  if (spec.collective == Collective::broadcast) {
    auto step = root ? lane.copy(in(0), out(0)) : lane.recv(towards, out(0));
    if (!last) step.send(away);
  } else if (spec.collective == Collective::scan) {
    auto step = lane.step();
    if (!root) step.recv(towards);
    step.with(in(0)).to(out(0));
    if (!last) step.send(away);
  } else if (spec.collective == Collective::exclusivescan) {
    exclusiveScan(lane, rank, last);
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
