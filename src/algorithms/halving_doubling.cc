// halving_doubling: reduce-scatter by recursive halving, then allgather by recursive doubling.
//
// Halving: partners at distance p/2, p/4, ... 1 each keep one half of the data that they still
// share and send the other half, so the data halves every round. At the end rank v has the finished
// chunk v of p. Doubling goes back in the same way. It has the bytes of the ring in 2 log2 p
// rounds. If p is no power of two, ranks are folded (plan::Fold): a folded rank gives its whole
// input to a neighbour and gets the whole result back, which costs 2 rounds and 2n per folded rank.
//
// The halves use different channels: the step in the middle receives, reduces and sends, and on one
// channel of depth 1 it would hold the slot that its partner waits for.
//
// Time, for powers of two: 2 log2 p alpha + 2 (p-1) n/p beta + (p-1) n/p gamma.
#include <algorithm>

#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

constexpr int kDoubling = 1; ///< channel index of the second half

bool supports(const Spec& spec) { return spec.collective == Collective::allreduce && plain(spec); }

double cost(const Spec& spec, const Link& link, double bytes) {
  const Fold fold(spec.ranks);
  const double part = bytes * (fold.size - 1) / fold.size;
  double time = floorLog2(spec.ranks) * 2 * link.alpha + part * (2 * link.beta + link.gamma);
  if (fold.extras > 0) time += 2 * link.alpha + bytes * (2 * link.beta + link.gamma);
  return time;
}

ClosedForm closedForm(const Spec& spec) {
  const Fold fold(spec.ranks);
  const int folds = fold.extras > 0 ? 1 : 0;
  const double inner = fold.size - 1;
  return {2 * floorLog2(spec.ranks) + 2 * folds, 2 * inner + 2.0 * fold.extras,
          2 * inner / fold.size + folds};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(spec.ranks);
  const int chunks = fold.size;
  Builder plan(spec, rank, chunks, fold.extras > 0 ? chunks : std::max(1, chunks / 2));
  auto lane = plan.lane();
  if (fold.folded(rank)) {
    lane.send(in(0, chunks), rank - 1);
    lane.recv(rank - 1, out(0, chunks));
    return plan.take();
  }

  const int v = fold.number(rank);
  bool folded = false; // whether the sums so far are in the output
  if (fold.doubled(v)) {
    lane.step().with(in(0, chunks)).recv(rank + 1).to(out(0, chunks));
    folded = true;
  }
  for (int half = chunks / 2; half > 0; half /= 2) {
    const int partner = fold.real(v ^ half);
    const int keep = v / half * half; // first chunk of the half that this rank keeps
    const bool from_output = folded || half < chunks / 2;
    const auto held = [&](int first) { return from_output ? out(first, half) : in(first, half); };
    lane.send(held(keep ^ half), partner);
    auto step = lane.step();
    if (partner < rank) step.recv(partner).with(held(keep));
    else step.with(held(keep)).recv(partner);
    step.to(out(keep, half));
    if (half == 1) step.send(partner, kDoubling);
  }
  for (int half = 1; half < chunks; half *= 2) {
    const int partner = fold.real(v ^ half);
    const int own = v / half * half;
    if (half > 1) lane.send(out(own, half), partner, kDoubling);
    lane.recv(partner, out(own ^ half, half), kDoubling);
  }
  if (fold.doubled(v)) lane.send(out(0, chunks), rank + 1);
  return plan.take();
}

} // namespace

extern const plan::Algorithm halving_doubling;
const plan::Algorithm halving_doubling{
    .name = "halving_doubling",
    .summary = "partners halve the data to reduce it, and double it to share it",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
