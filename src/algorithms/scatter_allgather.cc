// scatter_allgather: the root sends one chunk to each rank; a ring shares the chunks.
//
// Counted from the root (v = 0), rank v receives chunk v, keeps it and passes it on to v+1 in one
// step. Then chunks v-1, v-2, ... arrive from the left. The root needs no data, so the ring ends
// before it: it does not pass on what would reach it, but sends its own copy to v = 1. So every
// rank receives exactly n bytes, and only the root sends more than n.
//
// Time: (p-1) alpha + 2 (p-1) n/p beta: the ring starts while the root still sends.
#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::broadcast && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  return (spec.ranks - 1) * (link.alpha + 2 * bytes / spec.ranks * link.beta);
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  return {2 * (spec.ranks - 1), p - 1, 2 * (p - 1) / p};
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const auto real = [&](int v) { return wrap(v + spec.root, p); };
  const int v = wrap(rank - spec.root, p);
  Builder plan(spec, rank, p);
  auto lane = plan.lane();
  if (v == 0) {
    for (int c = 1; c < p; ++c) lane.copy(in(c), out(c)).send(real(c));
    lane.copy(in(0), out(0)).send(real(1));
    for (int c = p - 1; c > 1; --c) lane.send(in(c), real(1));
    return plan.take();
  }
  for (int s = 0; s < p; ++s) {
    // All messages of step 0 come from the root, and so do all messages of v = 1, its right
    // neighbour.
    auto step = lane.recv(s == 0 ? real(0) : real(v - 1), out(wrap(v - s, p)));
    if (v < p - 1 && s < p - 1) step.send(real(v + 1));
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm scatter_allgather;
const plan::Algorithm scatter_allgather{
    .name = "scatter_allgather",
    .summary = "the root sends out chunks, and a ring shares them",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
