// pairwise: AlltoAll in p-1 rounds; in round s every rank sends to the rank s places to its right.
//
// Every block is sent directly to its destination, and in each round every rank sends one block and
// receives one. For blocks so large that bytes count more than rounds.
//
// Time, blocks of n bytes: (p-1) (alpha + n beta).
#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::alltoall && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  return (spec.ranks - 1) * (link.alpha + bytes * link.beta);
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  return {spec.ranks - 1, p * (p - 1), p - 1};
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  Builder plan(spec, rank);
  auto lane = plan.lane();
  for (int s = 1; s < p; ++s) {
    const int to = wrap(rank + s, p), from = wrap(rank - s, p);
    lane.send(in(to), to);
    if (s == 1) lane.copy(in(rank), out(rank)); // while the first messages travel
    lane.recv(from, out(from));
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm pairwise;
const plan::Algorithm pairwise{
    .name = "pairwise",
    .summary = "in round s every rank sends to the rank s places further",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
