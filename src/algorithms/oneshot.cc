// oneshot: every rank sends its whole input to every other rank, and reduces everything itself.
//
// One round. Every rank receives p-1 messages of n bytes and combines them with its own input in
// one pass, in rank order, so the result is equal on all ranks and deterministic. The fastest
// algorithm for messages so small that only the number of rounds counts; the "naive" AllReduce of
// the lectures.
//
// Time: alpha + (p-1) n beta + (p-1) n gamma.
#include "plan/builder.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::allreduce && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  const int others = spec.ranks - 1;
  return others == 0 ? 0 : link.alpha + others * bytes * (link.beta + link.gamma);
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  return {spec.ranks > 1 ? 1 : 0, p * (p - 1), p - 1};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  Builder plan(spec, rank);
  auto lane = plan.lane();
  auto sends = lane.step().with(in(0));
  for (int i = 1; i < spec.ranks; ++i) sends.send((rank + i) % spec.ranks);
  auto reduce = lane.step();
  for (int r = 0; r < spec.ranks; ++r) {
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
