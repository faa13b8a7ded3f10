// Counts in one pass over the ordered steps: first the round of each step, then sums.
#include "plan/count.h"

#include <algorithm>
#include <set>

#include "plan/check_parts.h"
#include "plan/graph.h"

namespace rondo::plan {
namespace {

/// Rounds of one step, and what later steps inherit. 0: none.
struct Rounds {
  int send = 0, receive = 0;           ///< of the step itself
  int last_send = 0, last_receive = 0; ///< of the lane so far
  int known = 0;                       ///< K in count.h
  int waited_send = 0; ///< last_send of the lane and of the steps that it waited for
};

std::vector<Rounds> countRounds(const Graph& graph, std::span<const std::uint32_t> order) {
  std::vector<Rounds> rounds(graph.nodes().size());
  for (const auto n : order) {
    const Graph::Node& node = graph.nodes()[n];
    Rounds now;
    if (!node.first) {
      now = rounds[n - 1];
      now.send = now.receive = 0;
    }
    for (const Dependency& d : node.step->after) {
      const Rounds& other = rounds[graph.node(node.rank, d.lane, d.step)];
      now.known = std::max(now.known, other.known);
      now.waited_send = std::max(now.waited_send, other.waited_send);
    }
    for (const auto message : graph.received(n)) {
      if (message == Graph::kNone) continue;
      now.receive = std::max(now.receive, rounds[graph.messages()[message].from].send);
    }
    if (now.receive != 0) {
      now.receive = std::max({now.receive, now.last_receive + 1, now.waited_send, now.known});
      now.last_receive = now.receive;
      now.known = now.receive;
    }
    if (node.step->is_barrier) {
      int latest = 0;
      for (const auto there : graph.meeting(n)) {
        if (graph.nodes()[there].first) continue;
        const Rounds& before = rounds[there - 1];
        latest = std::max({latest, before.known, before.last_send, before.waited_send});
      }
      now.receive = now.last_receive = now.last_send = now.waited_send = now.known = latest + 1;
    }
    if (!node.step->sends.empty()) {
      now.send = std::max(1 + std::max(now.known, now.last_send), now.waited_send);
      now.last_send = now.send;
      now.waited_send = now.send;
    }
    rounds[n] = now;
  }
  return rounds;
}

using Chunks = std::vector<std::uint64_t>; ///< by rank; exact sums

/// Counts traffic through a switch.
void countWindows(const Graph& graph, Chunks& sent, Chunks& received) {
  for (const Graph::Node& node : graph.nodes()) {
    const Step& step = *node.step;
    const auto own = static_cast<std::size_t>(node.rank);
    const bool sums = !step.inputs.empty() && step.inputs[0].of_all;
    if (!sums && !step.to_all) continue;
    if (sums) received[own] += step.shape.count;
    if (step.to_all) sent[own] += step.shape.count;
    for (std::size_t r = 0; r < sent.size(); ++r) {
      if (sums) sent[r] += step.shape.count;
      if (step.to_all) received[r] += step.shape.count;
    }
  }
}

/// Counts the peers that each rank sends to and receives from.
void countWires(const Graph& graph, std::vector<RankCount>& ranks) {
  std::vector<std::set<int>> to(ranks.size()), from(ranks.size()), peers(ranks.size());
  for (const Channel& channel : graph.channels()) {
    const auto src = static_cast<std::size_t>(channel.src);
    const auto dst = static_cast<std::size_t>(channel.dst);
    to[src].insert(channel.dst);
    from[dst].insert(channel.src);
    peers[src].insert(channel.dst);
    peers[dst].insert(channel.src);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].wires_out = static_cast<int>(to[r].size());
    ranks[r].wires_in = static_cast<int>(from[r].size());
    ranks[r].wires = static_cast<int>(peers[r].size());
  }
}

} // namespace

Counts count(const Graph& graph, std::span<const std::uint32_t> order) {
  const auto rounds = countRounds(graph, order);
  Counts counts;
  for (const Rounds& r : rounds) counts.rounds = std::max({counts.rounds, r.send, r.receive});

  const RankPlan& any = graph.plans().front();
  const bool empty = !traits(any.spec.collective).movesData();
  const double blocks_per_chunk = empty ? 0 : 1.0 / any.chunks_per_block;
  const auto ranks = graph.plans().size();
  counts.ranks.resize(ranks);
  Chunks sent(ranks), received(ranks);
  std::uint64_t between = 0;
  const auto& levels = any.spec.layout.groups;
  for (const Graph::Message& message : graph.messages()) {
    const Graph::Node& from = graph.nodes()[message.from];
    const Channel& channel = graph.channels()[message.channel];
    const auto src = static_cast<std::size_t>(channel.src);
    const auto dst = static_cast<std::size_t>(channel.dst);
    sent[src] += from.step->shape.count;
    received[dst] += from.step->shape.count;
    const bool leaves_node = !levels.empty() && levels[0][src] != levels[0][dst];
    if (leaves_node) between += from.step->shape.count;
    ++counts.ranks[src].messages_sent;
    ++counts.ranks[dst].messages_received;
    counts.transfers.push_back({rounds[message.from].send, channel, from.step->shape,
                                from.step->shape.count * blocks_per_chunk, from.lane, from.index,
                                leaves_node});
  }
  countWindows(graph, sent, received);
  std::sort(counts.transfers.begin(), counts.transfers.end(),
            [](const Transfer& a, const Transfer& b) {
              return a.round != b.round ? a.round < b.round : a.channel < b.channel;
            });

  countWires(graph, counts.ranks);
  std::uint64_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    RankCount& rank = counts.ranks[r];
    rank.sent = static_cast<double>(sent[r]) * blocks_per_chunk;
    rank.received = static_cast<double>(received[r]) * blocks_per_chunk;
    total += sent[r];
    counts.max_sent = std::max(counts.max_sent, rank.sent);
  }
  counts.total_sent = static_cast<double>(total) * blocks_per_chunk;
  counts.between_nodes = static_cast<double>(between) * blocks_per_chunk;
  return counts;
}

Counts count(std::span<const RankPlan> plans) {
  const Graph graph = wholeGraph(plans);
  return count(graph, graph.order());
}

std::vector<double> Counts::wireLoad() const {
  std::vector<double> load(static_cast<std::size_t>(rounds));
  double carried = 0;
  const Transfer* before = nullptr;
  for (const Transfer& t : transfers) {
    const bool same = before && before->round == t.round && before->channel == t.channel;
    carried = t.bytes + (same ? carried : 0);
    double& most = load[static_cast<std::size_t>(t.round - 1)];
    most = std::max(most, carried);
    before = &t;
  }
  return load;
}

} // namespace rondo::plan
