// linear: the root communicates with every other rank; no other pair does.
//
// Reduce: the root receives all inputs and combines them in one pass, in rank order: the
// deterministic Reduce. Broadcast: one step sends to all ranks. Scatter and Gather: one message per
// rank. It has the fewest waits and the fewest bytes in total, but all bytes pass the root's link.
//
// "linear/k": the root of a Gather has k lanes, so it takes the messages of k senders in the order
// of arrival. With one lane it waits for each sender in turn, while other messages have already
// arrived.
//
// Time: alpha + (p-1) n beta; Reduce adds (p-1) n gamma.
#include <algorithm>

#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

int rootLanes(const Spec& spec) { return std::max(spec.parameter, 1); }

bool supports(const Spec& spec) {
  Spec without = spec;
  without.parameter = 0;
  const int most = spec.collective == Collective::gather ? spec.ranks : 0;
  return plain(without) && hasRoot(spec.collective) && spec.parameter >= 0 &&
         spec.parameter <= most;
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const int others = spec.ranks - 1;
  if (others == 0) return 0;
  const double reduction = spec.collective == Collective::reduce ? others * bytes * link.gamma : 0;
  return link.alpha + others * bytes * link.beta + reduction;
}

ClosedForm closedForm(const Spec& spec) {
  const int others = spec.ranks - 1;
  if (others == 0) return {};
  const bool root_sends =
      spec.collective == Collective::broadcast || spec.collective == Collective::scatter;
  const int lanes = rootLanes(spec);
  const int rounds = spec.collective == Collective::scatter  ? others
                     : spec.collective == Collective::gather ? (others + lanes - 1) / lanes
                                                             : 1;
  return {rounds, static_cast<double>(others), root_sends ? static_cast<double>(others) : 1.0};
}

void buildRoot(const Spec& spec, Builder& plan) {
  auto lane = plan.lane();
  const int p = spec.ranks, root = spec.root;
  switch (spec.collective) {
    case Collective::reduce: {
      auto step = lane.step();
      for (int r = 0; r < p; ++r) {
        if (r == root) step.with(in(0));
        else step.recv(r);
      }
      step.to(out(0));
      break;
    }
    case Collective::broadcast: {
      auto step = lane.copy(in(0), out(0));
      for (int i = 1; i < p; ++i) step.send((root + i) % p);
      break;
    }
    case Collective::scatter:
      for (int i = 1; i < p; ++i) lane.send(in((root + i) % p), (root + i) % p);
      lane.copy(in(root), out(0));
      break;
    default: // gather
      lane.copy(in(0), out(root));
      for (int first = 1; first <= std::min(p - 1, rootLanes(spec)); ++first) {
        if (first > 1) lane = plan.lane();
        for (int i = first; i < p; i += rootLanes(spec))
          lane.recv((root + i) % p, out((root + i) % p));
      }
      break;
  }
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  Builder plan(spec, rank);
  if (rank == spec.root) {
    buildRoot(spec, plan);
    return plan.take();
  }
  auto lane = plan.lane();
  if (spec.collective == Collective::reduce || spec.collective == Collective::gather) {
    lane.send(in(0), spec.root);
  } else {
    lane.recv(spec.root, out(0));
  }
  return plan.take();
}

} // namespace

extern const plan::Algorithm linear;
const plan::Algorithm linear{
    .name = "linear",
    .summary = "the root sends to, or receives from, every other rank",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
