// hillis_steele: in round s every rank sends what it has to the rank 2^s after it (Hillis and
// Steele, "Data parallel algorithms", 1986).
//
// Scan: a rank has its own input at first. What it receives is the reduction of the ranks just
// before those that it has already, so it puts it in front. After round s it has up to 2^(s+1)
// ranks. A rank whose result is complete sends it to all its later receivers in one step.
// ExclusiveScan: a first round moves every input to the next rank. These ranks, without rank 0,
// then do a Scan.
//
// Time: r (alpha + n beta + n gamma), with r = ceil(log2 p) rounds; ExclusiveScan alpha + n beta
// more, with r = ceil(log2(p-1)).
#include <optional>

#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::scan || spec.collective == Collective::exclusivescan);
}

/// The Scan that the ranks from `first` on do.
struct Inner {
  int first, ranks;

  explicit Inner(const Spec& spec)
      : first(spec.collective == Collective::exclusivescan ? 1 : 0), ranks(spec.ranks - first) {}
  int rounds() const { return ranks < 2 ? 0 : ceilLog2(ranks); }
};

double cost(const Spec& spec, const Link& link, double bytes) {
  if (spec.ranks == 1) return 0;
  const Inner scan(spec);
  return (scan.first + scan.rounds()) * (link.alpha + bytes * link.beta) +
         scan.rounds() * bytes * link.gamma;
}

ClosedForm closedForm(const Spec& spec) {
  if (spec.ranks == 1) return {};
  const Inner scan(spec);
  double total = scan.first * scan.ranks;
  for (int s = 0; s < scan.rounds(); ++s) total += scan.ranks - (1 << s);
  const int rounds = scan.first + scan.rounds();
  return {rounds, total, static_cast<double>(rounds)};
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const Inner scan(spec);
  const int own = rank - scan.first; // its place among the ranks of the inner Scan
  const bool last = rank == spec.ranks - 1;
  Builder plan(spec, rank);
  auto lane = plan.lane();
  std::optional<StepWriter> has; // the step that made what this rank has
  if (scan.first == 0) {
    if (rank == 0) has = lane.copy(in(0), out(0));
    else if (!last) has = lane.step().with(in(0));
  } else {
    if (!last) lane.send(in(0), rank + 1);
    if (rank == 0) return plan.take();
    has = lane.recv(rank - 1, out(0));
  }
  Piece value = scan.first == 0 ? in(0) : out(0);
  for (int s = 0; s < scan.rounds(); ++s) {
    const int distance = 1 << s;
    if (own + distance < scan.ranks) has->send(rank + distance);
    if (own < distance) continue;
    has = lane.step().recv(rank - distance).with(value).to(out(0));
    value = out(0);
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm hillis_steele;
const plan::Algorithm hillis_steele{
    .name = "hillis_steele",
    .summary = "in round s every rank sends what it has to the rank 2^s after it",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
