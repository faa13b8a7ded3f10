// butterfly: recursive doubling; partners at distance 1, 2, 4, ... exchange all that they have.
//
// After round s every rank holds the reduction over the 2^s ranks around it, after log2 p rounds
// over all ranks. Receiving, reducing and sending to the next partner is one step. If p is no power
// of two, some ranks first give their input to a neighbour and get the result from it at the end
// (plan::Fold). The lower rank's operand always comes first, so all ranks get the same bits. It has
// half the rounds of a tree, but every rank sends all data in each round: for small messages.
//
// Time: log2 p (alpha + n (beta + gamma)); a fold adds 2 alpha + n (2 beta + gamma).
#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) { return spec.collective == Collective::allreduce && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  const Fold fold(spec.ranks);
  const double exchange = link.alpha + bytes * (link.beta + link.gamma);
  double time = floorLog2(spec.ranks) * exchange;
  if (fold.extras > 0) time += exchange + link.alpha + bytes * link.beta;
  return time;
}

ClosedForm closedForm(const Spec& spec) {
  const Fold fold(spec.ranks);
  const int levels = floorLog2(spec.ranks);
  const int folds = fold.extras > 0 ? 1 : 0;
  return {levels + 2 * folds, static_cast<double>(fold.size) * levels + 2.0 * fold.extras,
          static_cast<double>(levels + folds)};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(spec.ranks);
  Builder plan(spec, rank);
  auto lane = plan.lane();
  if (fold.folded(rank)) {
    lane.send(in(0), rank - 1);
    lane.recv(rank - 1, out(0));
    return plan.take();
  }

  const int v = fold.number(rank);
  auto step = lane.step().with(in(0));
  Piece held = in(0);
  if (fold.doubled(v)) {
    step.recv(rank + 1).to(out(0));
    held = out(0);
  }
  for (int distance = 1; distance < fold.size; distance *= 2) {
    const int partner = fold.real(v ^ distance);
    step.send(partner);
    step = lane.step();
    if (partner < rank) step.recv(partner).with(held);
    else step.with(held).recv(partner);
    step.to(out(0));
    held = out(0);
  }
  if (fold.doubled(v)) step.send(rank + 1);
  return plan.take();
}

} // namespace

extern const plan::Algorithm butterfly;
const plan::Algorithm butterfly{
    .name = "butterfly",
    .summary = "partners at distance 1, 2, 4, ... exchange everything",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
