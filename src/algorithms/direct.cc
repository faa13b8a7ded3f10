// direct: every rank owns one chunk; all ranks send it their parts, and it shares the result.
//
// Reduce-scatter: rank r sends chunk q of its input to rank q, for all q. The owner combines the p
// parts in one pass, in rank order (the deterministic result). Allgather: the owner sends its chunk
// to all ranks, in the same step as the reduction. All pairs of ranks communicate, so the network
// (or memory) must carry all pairs without contention. Then it has the bytes and messages of the
// ring, but a rank waits only twice, not 2(p-1) times. ReduceScatter is the first half alone,
// Allgather the second. AlltoAll is the first half without reduction: all blocks are sent at once,
// while pairwise sends them one after the other.
//
// The halves use different channels: on one channel of depth 1, the step that reduces and shares
// would hold the slot that its peer waits for.
//
// Time: AllReduce 2 alpha + 2 (p-1) n/p beta + (p-1) n/p gamma. The halves, with blocks of n bytes,
// and AlltoAll: alpha + (p-1) n beta, and (p-1) n gamma for the reduction.
#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::allreduce ||
          spec.collective == Collective::reducescatter ||
          spec.collective == Collective::allgather || spec.collective == Collective::alltoall);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const double p = spec.ranks;
  if (spec.ranks == 1) return 0;
  const double part = spec.collective == Collective::allreduce ? bytes / p : bytes;
  const int halves = spec.collective == Collective::allreduce ? 2 : 1;
  const double reduction = reduces(spec.collective) ? (p - 1) * part * link.gamma : 0;
  return halves * (link.alpha + (p - 1) * part * link.beta) + reduction;
}

ClosedForm closedForm(const Spec& spec) {
  const int others = spec.ranks - 1;
  const double p = spec.ranks;
  if (others == 0) return {};
  switch (spec.collective) {
    case Collective::allreduce: return {2 * others, 2 * (p - 1), 2 * (p - 1) / p};
    default: return {others, p * (p - 1), p - 1};
  }
}

RankPlan allToAll(const Spec& spec, int rank) {
  const int p = spec.ranks;
  Builder plan(spec, rank);
  auto sending = plan.lane(), receiving = plan.lane();
  receiving.copy(in(rank), out(rank));
  for (int i = 1; i < p; ++i) {
    sending.send(in((rank + i) % p), (rank + i) % p);
    receiving.recv(wrap(rank - i, p), out(wrap(rank - i, p)));
  }
  return plan.take();
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  if (spec.collective == Collective::alltoall) return allToAll(spec, rank);
  const bool all = spec.collective == Collective::allreduce;
  const bool reducing = spec.collective != Collective::allgather;
  const bool sharing = spec.collective != Collective::reducescatter;
  const int share = all ? 1 : 0; // channel index of the second half

  Builder plan(spec, rank, all ? p : 1);
  auto lane = plan.lane();
  if (reducing) {
    // Rank r starts with its right neighbour, so that the ranks do not all send to one owner first.
    for (int i = 1; i < p; ++i) lane.send(in((rank + i) % p), (rank + i) % p);
  }
  auto own = lane.step();
  for (int r = 0; r < p; ++r) {
    if (r == rank) own.with(in(reducing ? rank : 0));
    else if (reducing) own.recv(r);
  }
  own.to(out(sharing ? rank : 0));
  if (sharing) {
    for (int i = 1; i < p; ++i) own.send((rank + i) % p, share);
    for (int i = 1; i < p; ++i) lane.recv(wrap(rank - i, p), out(wrap(rank - i, p)), share);
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm direct;
const plan::Algorithm direct{
    .name = "direct",
    .summary = "every rank reduces one chunk and shares it; all pairs of ranks communicate",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
