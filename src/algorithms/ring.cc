// ring: every rank sends to its right neighbour and receives from its left one.
//
// The data is divided into p chunks. A chunk travels around the ring; every rank on the way adds
// its own part, and the last one has the sum (p-1 rounds). The finished chunks travel once more,
// and every rank keeps a copy (p-1 rounds). ReduceScatter is the first half alone, Allgather the
// second. No rank sends more than one chunk per round, so the bandwidth is that of one link for any
// p; the price is the number of rounds.
//
// The messages alternate between two channels. A fused step holds the slot that it reads until it
// has a slot to write: with one channel of depth 1, every rank of the ring would wait for the next.
//
// Time: AllReduce 2 (p-1) (alpha + n/p beta) + (p-1) n/p gamma; the halves, with blocks of n bytes,
// (p-1) (alpha + n beta), and (p-1) n gamma for the reduction.
#include "plan/builder.h"
#include "plan/near.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::allreduce ||
          spec.collective == Collective::reducescatter || spec.collective == Collective::allgather);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const double p = spec.ranks;
  const double part = spec.collective == Collective::allreduce ? bytes / p : bytes;
  double time = 0;
  if (spec.collective != Collective::allgather)
    time += (p - 1) * (link.alpha + part * (link.beta + link.gamma));
  if (spec.collective != Collective::reducescatter)
    time += (p - 1) * (link.alpha + part * link.beta);
  return time;
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  if (spec.collective == Collective::allreduce)
    return {2 * (spec.ranks - 1), 2 * (p - 1), 2 * (p - 1) / p};
  return {spec.ranks - 1, p * (p - 1), p - 1};
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const bool all = spec.collective == Collective::allreduce;
  const bool reducing = spec.collective != Collective::allgather;
  const bool sharing = spec.collective != Collective::reducescatter;
  const int left = wrap(rank - 1, p), right = wrap(rank + 1, p);

  Builder plan(spec, rank, all ? p : 1);
  auto lane = plan.lane();
  int sent = 0, received = 0;
  const auto next = [](int& messages) { return messages++ % 2; };

  if (reducing) {
    // The chunk that ends at rank x starts at its right neighbour. In AllReduce rank r finishes
    // chunk r+1, so it starts with chunk r; in ReduceScatter it must finish block r.
    const int last = all ? wrap(rank + 1, p) : rank;
    lane.send(in(wrap(last - 1, p)), right, next(sent));
    for (int s = 2; s < p; ++s) {
      auto step = lane.step().recv(left, next(received)).with(in(wrap(last - s, p)));
      step.send(right, next(sent));
    }
    auto step = lane.step().recv(left, next(received)).with(in(last));
    if (!all) {
      step.to(out(0));
    } else {
      step.to(out(last)).send(right, next(sent));
    }
  }
  if (sharing) {
    const int first = all ? wrap(rank + 1, p) : rank; // the chunk that this rank sends first
    if (!all) lane.step().with(in(0)).to(out(first)).send(right, next(sent));
    for (int s = 1; s < p; ++s) {
      auto step = lane.recv(left, out(wrap(first - s, p)), next(received));
      if (s < p - 1) step.send(right, next(sent));
    }
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm ring;
const plan::Algorithm ring{
    .name = "ring",
    .summary = "each chunk travels the ring once to be reduced, once to be shared",
    .supports = supports,
    .cost = cost,
    .closedForm = nearForm<closedForm>,
    .build = nearPlan<build>,
};

} // namespace rondo::algorithms
