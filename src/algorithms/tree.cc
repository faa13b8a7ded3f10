// tree: a binomial tree; data goes up to be reduced and down to be shared.
//
// A rank holds an interval of ranks, hands the half without itself to a child, and continues with
// the rest (plan::binomialTree). Reduce goes up: a rank combines its children's messages with its
// own input in one pass, in rank order, and sends the result to its parent. Broadcast goes down.
// AllReduce does both, and the root turns around in one step; up and down are separate lanes, so
// that one tile goes up while another goes down. Scatter and Gather move whole subtrees, which
// halve or double at each level. There are few rounds, but the links near the root carry all data:
// for small messages, or many ranks.
//
// Time, for powers of two: each way log2 p (alpha + n beta), reducing + log2 p n gamma; Scatter,
// Gather log2 p alpha + (p-1) n beta.
#include <algorithm>

#include "plan/builder.h"
#include "plan/near.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) && (spec.collective == Collective::allreduce || hasRoot(spec.collective));
}

/// An interval of ranks, as binomialTree() divides it: its size, and the position of its holder.
/// `lower` and `upper` are the halves; `child` is the half that gets a new holder.
struct Interval {
  int size, holder;

  int lower() const { return (size + 1) / 2; }
  Interval keep() const {
    return holder < lower() ? Interval{lower(), holder}
                            : Interval{size - lower(), holder - lower()};
  }
  Interval child() const { return {holder < lower() ? size - lower() : lower(), 0}; }
};

/// Edges on the longest path: the number of communication rounds from the leaves to the root, or
/// back, if a step communicates with all children.
int height(Interval i) {
  return i.size == 1 ? 0 : std::max(1 + height(i.child()), height(i.keep()));
}

/// Number of communication rounds from the root to the leaves if the children get different
/// messages, one after the other.
int turns(Interval i) { return i.size == 1 ? 0 : 1 + std::max(turns(i.child()), turns(i.keep())); }

int children(Interval i) { return i.size == 1 ? 0 : 1 + children(i.keep()); }

/// Messages sent by the busiest rank, if each rank sends one to its parent (except the root) and
/// one to each child.
int busiest(Interval i, bool root) {
  if (i.size == 1) return root ? 0 : 1;
  int most = children(i) + (root ? 0 : 1);
  for (; i.size > 1; i = i.keep()) most = std::max(most, busiest(i.child(), false));
  return most;
}

/// Blocks sent by all ranks, if the edge to each child carries its subtree.
double carried(Interval i) {
  return i.size == 1 ? 0 : i.child().size + carried(i.child()) + carried(i.keep());
}

/// The largest number of blocks that a rank sends to its parent.
int heaviest(Interval i) { return i.size == 1 ? 0 : std::max(i.child().size, heaviest(i.keep())); }

/// Seconds from the moment when the holder has the data until all ranks of the interval have their
/// part: the holder sends to its children one after the other, largest subtree first. The way back,
/// from the leaves to the holder, takes as long. `each`: seconds on the line for one block;
/// `subtrees`: a message carries a block for each rank of the child's subtree, not one.
double spread(Interval i, double alpha, double each, bool subtrees) {
  double sending = 0, last = 0;
  for (; i.size > 1; i = i.keep()) {
    sending += (subtrees ? i.child().size : 1) * each;
    last = std::max(last, sending + alpha + spread(i.child(), alpha, each, subtrees));
  }
  return last;
}

double cost(const Spec& spec, const Link& link, double bytes) {
  const bool subtrees =
      spec.collective == Collective::scatter || spec.collective == Collective::gather;
  const double way = spread({spec.ranks, spec.root}, link.alpha, bytes * link.beta, subtrees);
  const double reduction = reduces(spec.collective) ? ceilLog2(spec.ranks) * bytes * link.gamma : 0;
  return (spec.collective == Collective::allreduce ? 2 : 1) * way + reduction;
}

ClosedForm closedForm(const Spec& spec) {
  if (spec.ranks == 1) return {};
  const Interval all{spec.ranks, spec.root};
  const double others = spec.ranks - 1;
  switch (spec.collective) {
    case Collective::allreduce:
      return {2 * height(all), 2 * others, static_cast<double>(busiest(all, true))};
    case Collective::reduce: return {height(all), others, 1};
    case Collective::broadcast: return {height(all), others, static_cast<double>(children(all))};
    case Collective::scatter: return {turns(all), carried(all), others};
    default: return {turns(all), carried(all), static_cast<double>(heaviest(all))};
  }
}

/// The children's messages and the rank's own input, in rank order.
StepWriter reduceUp(LaneWriter lane, const TreeNode& node, int rank) {
  auto ordered = node.children;
  ordered.push_back(rank);
  std::sort(ordered.begin(), ordered.end());
  auto step = lane.step();
  for (const int r : ordered) {
    if (r == rank) step.with(in(0));
    else step.recv(r);
  }
  return step;
}

void sendToAll(StepWriter step, const std::vector<int>& peers) {
  for (const int peer : peers) step.send(peer);
}

RankPlan buildReduce(const Spec& spec, int rank, const TreeNode& node) {
  Builder plan(spec, rank);
  const bool share = spec.collective == Collective::allreduce;
  auto step = reduceUp(plan.lane(), node, rank);
  if (node.parent >= 0) {
    step.send(node.parent);
    if (share) sendToAll(plan.lane().recv(node.parent, out(0)), node.children);
  } else {
    step.to(out(0));
    if (share) sendToAll(step, node.children);
  }
  return plan.take();
}

RankPlan buildBroadcast(const Spec& spec, int rank, const TreeNode& node) {
  Builder plan(spec, rank);
  auto lane = plan.lane();
  sendToAll(node.parent < 0 ? lane.copy(in(0), out(0)) : lane.recv(node.parent, out(0)),
            node.children);
  return plan.take();
}

RankPlan buildScatter(const Spec& spec, int rank, const TreeNode& node) {
  Builder plan(spec, rank, 1, heaviest({spec.ranks, spec.root}));
  auto lane = plan.lane();
  if (node.children.empty()) { // a leaf, since there is more than one rank
    lane.recv(node.parent, out(0));
    return plan.take();
  }
  const bool root = node.parent < 0;
  const auto blocks = [&](int first, int count) {
    return root ? in(first, count) : scratch(first - node.first, count);
  };
  if (!root) lane.recv(node.parent, blocks(node.first, node.size));
  for (const int child : node.children) {
    const TreeNode below = binomialTree(spec.ranks, spec.root, child);
    lane.send(blocks(below.first, below.size), child);
  }
  lane.copy(blocks(rank, 1), out(0));
  return plan.take();
}

RankPlan buildGather(const Spec& spec, int rank, const TreeNode& node) {
  Builder plan(spec, rank, 1, heaviest({spec.ranks, spec.root}));
  auto lane = plan.lane();
  if (node.children.empty()) {
    lane.send(in(0), node.parent);
    return plan.take();
  }
  const bool root = node.parent < 0;
  const auto blocks = [&](int first, int count) {
    return root ? out(first, count) : scratch(first - node.first, count);
  };
  lane.copy(in(0), blocks(rank, 1));
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    const TreeNode below = binomialTree(spec.ranks, spec.root, *child);
    lane.recv(*child, blocks(below.first, below.size));
  }
  if (!root) lane.send(blocks(node.first, node.size), node.parent);
  return plan.take();
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  const TreeNode node = binomialTree(spec.ranks, spec.root, rank);
  switch (spec.collective) {
    case Collective::broadcast: return buildBroadcast(spec, rank, node);
    case Collective::scatter: return buildScatter(spec, rank, node);
    case Collective::gather: return buildGather(spec, rank, node);
    default: return buildReduce(spec, rank, node);
  }
}

} // namespace

extern const plan::Algorithm tree;
const plan::Algorithm tree{
    .name = "tree",
    .summary = "a binomial tree: up to reduce, down to share",
    .supports = supports,
    .cost = cost,
    .closedForm = nearForm<closedForm>,
    .build = nearPlan<build>,
};

} // namespace rondo::algorithms
