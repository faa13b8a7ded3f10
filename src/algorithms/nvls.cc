// nvls: the switch between the GPUs adds up, and spreads, what stands in all ranks' windows.
//
// Every rank stages its input in its window. AllReduce: the ranks meet; rank r reads the sum of the
// r-th share of all windows, which the switch forms on the way, and stores it to all of them, which
// the switch does, too; they meet, and take the result out. ReduceScatter is the first half of
// that, Allgather the second. A link carries n + n/p bytes each way, where direct and ring need 2
// (p-1) n/p: half as much with many ranks, more with fewer than three.
//
// The windows serve the next tile, so nobody may leave a tile while others still touch his, nor
// touch another's before he has come to the tile: hence ReduceScatter's last meeting, and
// Allgather's first.
//
// The order of the sum is the switch's: nobody tells it, and it may differ from element to element
// and from machine to machine. All ranks get the same bits, since each share is summed up once. So
// deterministic mode refuses it for what reduces (the checker says that it is not in rank order),
// and small floats are added in 32 bits and rounded once.
//
// Time, with the switch as fast as a link: AllReduce 2 alpha + (1 + 1/p) n beta; the halves, with
// blocks of n bytes, 2 alpha + p n beta, where what each rank hands to the switch (ReduceScatter)
// or gets from it (Allgather) decides.
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
    .summary = "the switch between GPUs adds up and spreads what stands in all ranks' windows",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
