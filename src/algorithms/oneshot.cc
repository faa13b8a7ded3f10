// oneshot: every rank sends its whole input to every other rank, and reduces everything itself.
//
// One round. Every rank receives p-1 messages of n bytes and combines them with its own input in
// one pass, in rank order, so the result is equal on all ranks and deterministic. The fastest
// algorithm for messages so small that only the number of rounds counts; also called the "naive"
// AllReduce.
//
// Scan and ExclusiveScan: every rank sends to the ranks after it only, and reduces what it receives
// from the ranks before it; an exclusive one leaves out its own input.
//
// Time: alpha + (p-1) n beta + (p-1) n gamma; ExclusiveScan has one n gamma less.
#include "plan/builder.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::allreduce || spec.collective == Collective::scan ||
          spec.collective == Collective::exclusivescan);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const int others = spec.ranks - 1;
  if (others == 0) return 0;
  const int reductions = spec.collective == Collective::exclusivescan ? others - 1 : others;
  return link.alpha + others * bytes * link.beta + reductions * bytes * link.gamma;
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  const double receivers = spec.collective == Collective::allreduce ? p - 1 : (p - 1) / 2;
  return {spec.ranks > 1 ? 1 : 0, p * receivers, p - 1};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const bool to_all = spec.collective == Collective::allreduce;
  const int receivers = to_all ? spec.ranks - 1 : spec.ranks - 1 - rank;
  Builder plan(spec, rank);
  auto lane = plan.lane();
  if (receivers > 0) {
    auto sends = lane.step().with(in(0));
    for (int i = 1; i <= receivers; ++i) sends.send((rank + i) % spec.ranks);
  }
  const detail::RankRange from = traits(spec.collective).contributorsTo(rank, 0, 0, spec.ranks);
  if (from.empty()) return plan.take();
  auto reduce = lane.step();
  for (int r = from.first; r < from.end; ++r) {
    if (r == rank) reduce.with(in(0));
    else reduce.recv(r);
  }
  reduce.to(out(0));
  return plan.take();
}

} // namespace

extern const plan::Algorithm oneshot;
const plan::Algorithm oneshot{
    .name = "oneshot",
    .summary = "every rank sends everything to all ranks, in one round",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
