// halving: ReduceScatter by recursive halving; partners at distance p/2, p/4, ... 1 split the work.
//
// Partners each keep one half of the blocks that they still share and send the other half. The sums
// are kept in scratch, and the last step writes the rank's block. If p is no power of two, ranks
// are folded (plan::Fold): a folded rank gives all its blocks to a neighbour, which works for both,
// and gets its block at the end. Folding joins neighbours, so a rank always works for consecutive
// blocks.
//
// Time, for powers of two, blocks of n bytes: log2 p alpha + (p-1) n (beta + gamma).
#include <algorithm>

#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

/// First block of the ranks with numbers from `v` on.
int firstBlock(const Fold& fold, int v) { return v + std::min(v, fold.extras); }

bool supports(const Spec& spec) {
  return spec.collective == Collective::reducescatter && plain(spec);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const Fold fold(spec.ranks);
  const double each = link.beta + link.gamma;
  double time = floorLog2(spec.ranks) * link.alpha + (spec.ranks - 1) * bytes * each;
  if (fold.extras > 0) time += 2 * link.alpha + bytes * (spec.ranks * each + link.beta);
  return time;
}

/// Blocks that rank number `v` sends to its partners: all except those that it works for.
int sentByNumber(const Fold& fold, int ranks, int v) {
  return ranks - (firstBlock(fold, v + 1) - firstBlock(fold, v));
}

ClosedForm closedForm(const Spec& spec) {
  const Fold fold(spec.ranks);
  const double p = spec.ranks;
  if (fold.extras == 0) return {floorLog2(spec.ranks), p * (p - 1), p - 1};
  // In the halving, each of fold.size ranks sends p blocks except those that it works for. Each
  // folded rank sends p blocks and gets one back.
  double most = p; // a folded rank
  for (int v = 0; v < fold.size; ++v) {
    most = std::max(most, sentByNumber(fold, spec.ranks, v) + (fold.doubled(v) ? 1.0 : 0.0));
  }
  return {floorLog2(spec.ranks) + 2, p * (fold.size - 1) + fold.extras * (p + 1), most};
}

RankPlan build(const Spec& spec, int rank) {
  const int p = spec.ranks;
  if (p == 1) return alone(spec);
  const Fold fold(p);
  Builder plan(spec, rank, 1, fold.extras > 0 ? p : p / 2);
  auto lane = plan.lane();
  if (fold.folded(rank)) {
    lane.send(in(0, p), rank - 1);
    lane.recv(rank - 1, out(0));
    return plan.take();
  }

  const int v = fold.number(rank);
  bool summed = false; // whether the sums so far are in scratch
  if (fold.doubled(v)) {
    lane.step().with(in(0, p)).recv(rank + 1).to(scratch(0, p));
    summed = true;
  }
  for (int half = fold.size / 2; half > 0; half /= 2) {
    const int partner = fold.real(v ^ half);
    const auto blocks = [&](int first_number) { // of `half` ranks
      const int first = firstBlock(fold, first_number);
      const int count = firstBlock(fold, first_number + half) - first;
      return summed ? scratch(first, count) : in(first, count);
    };
    const int keep = v / half * half;
    lane.send(blocks(keep ^ half), partner);
    const Piece kept = blocks(keep);
    auto step = lane.step();
    if (partner < rank) step.recv(partner).with(kept);
    else step.with(kept).recv(partner);
    if (half == 1 && !fold.doubled(v)) {
      step.to(out(0));
    } else {
      step.to({Space::scratch, kept.chunk, kept.count});
    }
    summed = true;
  }
  if (fold.doubled(v)) {
    lane.send(scratch(rank + 1), rank + 1);
    lane.copy(scratch(rank), out(0));
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm halving;
const plan::Algorithm halving{
    .name = "halving",
    .summary = "partners split their work until each has one block",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
