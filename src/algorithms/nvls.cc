// nvls: the switch between the GPUs adds up all ranks' windows, and stores to all of them.
//
// Every rank stages its input in its window. AllReduce: after a barrier, rank r reads the sum of
// the r-th share of all windows, which the switch computes on the way, and stores it to all
// windows, which the switch does too. After another barrier, all ranks copy the result out.
// ReduceScatter is the first half, Allgather the second. A link carries n + n/p bytes in each
// direction, where direct and ring need 2 (p-1) n/p: half as much with many ranks, more with fewer
// than three.
//
// The windows serve the next tile. So no rank may leave a tile while others still access its
// window, or access another rank's window before that rank has entered the tile. Therefore
// ReduceScatter has a barrier at the end, and Allgather one at the start.
//
// The switch determines the order of the sum. The order is unknown and may differ between elements
// and machines. All ranks get the same bits, since each share is summed once. Deterministic mode
// refuses nvls for reductions (the checker finds that they are not in rank order). Small floats are
// added in 32 bits and rounded once.
//
// Time, with the switch as fast as a link: AllReduce 2 alpha + (1 + 1/p) n beta. The halves, with
// blocks of n bytes: 2 alpha + p n beta, determined by what each rank sends to the switch
// (ReduceScatter) or gets from it (Allgather).
#include "plan/builder.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  const Collective c = spec.collective;
  return (c == Collective::allreduce || c == Collective::reducescatter ||
          c == Collective::allgather) &&
         (spec.multicast || spec.ranks == 1) && plain(spec);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  if (spec.ranks == 1) return 0;
  const double p = spec.ranks;
  const bool all = spec.collective == Collective::allreduce;
  return 2 * link.alpha + (all ? 1 + 1 / p : p) * bytes * link.beta;
}

ClosedForm closedForm(const Spec& spec) {
  const double p = spec.ranks;
  if (spec.ranks == 1) return {};
  switch (spec.collective) {
    case Collective::allreduce: return {2, p + 1, 1 + 1 / p};
    case Collective::reducescatter: return {2, p * p, p};
    default: return {2, p, 1};
  }
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const bool all = spec.collective == Collective::allreduce;
  const bool sums = spec.collective != Collective::allgather;
  Builder plan(spec, rank, all ? p : 1, p);
  auto lane = plan.lane();
  if (sums) lane.copy(in(0, p), window(0, p));
  lane.meet();
  auto own = lane.step();
  if (sums) own.withSum(window(rank));
  else own.with(in(0));
  if (spec.collective == Collective::reducescatter) own.to(out(0));
  else own.toAll(window(rank));
  lane.meet();
  if (spec.collective != Collective::reducescatter) lane.copy(window(0, p), out(0, p));
  return plan.take();
}

} // namespace

extern const plan::Algorithm nvls;
const plan::Algorithm nvls{
    .name = "nvls",
    .summary = "the switch between GPUs adds up all ranks' windows and stores to all of them",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
