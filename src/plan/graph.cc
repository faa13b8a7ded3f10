// Flattens the plans of all ranks, pairs sends with receives, and sorts topologically.
#include "plan/graph.h"

#include <algorithm>

namespace rondo::plan {
namespace {

/// Turns counts at [i + 1] into start indices at [i].
void accumulate(std::vector<std::uint32_t>& begins) {
  for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
}

} // namespace

std::string text(const Channel& channel) {
  std::string result = std::to_string(channel.src) + "->" + std::to_string(channel.dst);
  if (channel.index != 0) result += "#" + std::to_string(channel.index);
  return result;
}

Graph::Graph(std::span<const RankPlan> plans, std::vector<std::string>& complaints,
             std::size_t limit)
    : plans_(plans) {
  addNodes();
  addMessages(complaints, limit);
  addMeetings(complaints, limit);
  addDependents();
}

void Graph::addNodes() {
  for (const RankPlan& plan : plans_) {
    auto& begins = lane_begin_.emplace_back();
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      begins.push_back(static_cast<std::uint32_t>(nodes_.size()));
      std::uint32_t index = 0;
      for (const Step& step : plan.lanes[lane].steps) {
        nodes_.push_back({&step, plan.rank, lane, index, index == 0});
        ++index;
      }
    }
  }
}

void Graph::addMessages(std::vector<std::string>& complaints, std::size_t limit) {
  addChannels();
  countMessages(complaints, limit);
  linkMessages();
  compareShapes(complaints, limit);
}

void Graph::addChannels() {
  for (const RankPlan& plan : plans_) {
    channels_.insert(channels_.end(), plan.channels.begin(), plan.channels.end());
  }
  std::sort(channels_.begin(), channels_.end());
  channels_.erase(std::unique(channels_.begin(), channels_.end()), channels_.end());

  global_.resize(plans_.size());
  for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
    for (const Channel& channel : plans_[rank].channels) {
      const auto at = std::lower_bound(channels_.begin(), channels_.end(), channel);
      global_[rank].push_back(static_cast<std::uint32_t>(at - channels_.begin()));
    }
  }
}

void Graph::addMeetings(std::vector<std::string>& complaints, std::size_t limit) {
  meeting_.assign(nodes_.size(), kNone);
  std::vector<std::uint32_t> met(plans_.size());
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!nodes_[n].step->is_barrier) continue;
    meeting_[n] = met[static_cast<std::size_t>(nodes_[n].rank)]++;
    if (meeting_[n] == meetings_.size()) meetings_.emplace_back();
    meetings_[meeting_[n]].push_back(n);
  }
  for (std::size_t rank = 1; rank < met.size(); ++rank)
    if (met[rank] != met[0] && complaints.size() < limit)
      complaints.push_back("rank " + std::to_string(rank) + " has " + std::to_string(met[rank]) +
                           " barriers, rank 0 has " + std::to_string(met[0]));
}

std::uint32_t Graph::globalOf(const Node& node, int channel) const {
  return global_[static_cast<std::size_t>(node.rank)][static_cast<std::size_t>(channel)];
}

void Graph::countMessages(std::vector<std::string>& complaints, std::size_t limit) {
  std::vector<std::uint32_t> sends(channels_.size()), receives(channels_.size());
  for (const Node& node : nodes_) {
    for (const int channel : node.step->sends) ++sends[globalOf(node, channel)];
    for (const Operand& operand : node.step->inputs) {
      if (!operand.local()) ++receives[globalOf(node, operand.channel)];
    }
  }
  channel_begin_.assign(channels_.size() + 1, 0);
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    channel_begin_[c + 1] = std::max(sends[c], receives[c]);
    if (sends[c] != receives[c] && complaints.size() < limit) {
      complaints.push_back(channelName(c) + ": rank " + std::to_string(channels_[c].src) +
                           " sends " + std::to_string(sends[c]) + " messages, rank " +
                           std::to_string(channels_[c].dst) + " receives " +
                           std::to_string(receives[c]));
    }
  }
  accumulate(channel_begin_);
}

void Graph::linkMessages() {
  messages_.resize(channel_begin_.back());
  std::vector<std::uint32_t> sends(channels_.size()), receives(channels_.size()); // so far
  received_begin_.push_back(0);
  sent_begin_.push_back(0);
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    for (const Operand& operand : nodes_[n].step->inputs) {
      std::uint32_t message = kNone;
      if (!operand.local()) {
        const auto channel = globalOf(nodes_[n], operand.channel);
        message = channel_begin_[channel] + receives[channel]++;
        messages_[message].to = n;
      }
      received_.push_back(message);
    }
    for (const int local : nodes_[n].step->sends) {
      const auto channel = globalOf(nodes_[n], local);
      const auto message = channel_begin_[channel] + sends[channel];
      messages_[message].from = n;
      messages_[message].channel = channel;
      messages_[message].number = sends[channel]++;
      sent_.push_back(message);
    }
    received_begin_.push_back(static_cast<std::uint32_t>(received_.size()));
    sent_begin_.push_back(static_cast<std::uint32_t>(sent_.size()));
  }
}

void Graph::compareShapes(std::vector<std::string>& complaints, std::size_t limit) const {
  for (const Message& message : messages_) {
    if (message.from == kNone || message.to == kNone || complaints.size() >= limit) continue;
    const Piece& sent = nodes_[message.from].step->shape;
    const Piece& got = nodes_[message.to].step->shape;
    const auto k = plans_[0].chunks_per_block;
    if (sent.count == got.count && sent.chunk % k == got.chunk % k) continue;
    const auto shape = [&](const Piece& piece) {
      return std::to_string(piece.count) + " chunks from chunk " + std::to_string(piece.chunk % k) +
             " of a block";
    };
    complaints.push_back(where(message.from) + " sends " + shape(sent) + " as message " +
                         std::to_string(message.number) + " of " + channelName(message.channel) +
                         ", but " + where(message.to) + " receives " + shape(got));
  }
}

void Graph::addDependents() {
  dependents_begin_.assign(nodes_.size() + 1, 0);
  const auto target = [&](const Node& n, const Dependency& d) {
    return node(n.rank, d.lane, d.step);
  };
  for (const Node& n : nodes_) {
    for (const Dependency& d : n.step->after) ++dependents_begin_[target(n, d) + 1];
  }
  accumulate(dependents_begin_);
  dependents_.resize(dependents_begin_.back());
  auto next = dependents_begin_;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    for (const Dependency& d : nodes_[i].step->after) {
      dependents_[next[target(nodes_[i], d)]++] = i;
    }
  }
}

/// depth 0: no slot edges.
template <typename Visit>
void Graph::forEachSuccessor(std::uint32_t node, std::uint32_t depth, Visit visit) const {
  forEachLocalSuccessor(node, visit);
  forEachMeeting(node, visit);
  for (const auto message : sent(node)) visit(messages_[message].to);
  if (depth == 0) return;
  for (const auto message : received(node)) {
    if (message == kNone) continue;
    const auto end = channel_begin_[messages_[message].channel + 1];
    if (message + depth < end) visit(messages_[message + depth].from);
  }
}

std::vector<std::uint32_t> Graph::order(std::optional<int> depth,
                                        std::span<const std::uint32_t> first) const {
  const auto slots = static_cast<std::uint32_t>(depth.value_or(0));
  const auto size = static_cast<std::uint32_t>(nodes_.size());
  const auto of = [&](std::uint32_t n) { return first.empty() ? n : first[n]; };
  std::vector<std::uint32_t> waits(size); // of bundles, at their first nodes
  for (std::uint32_t n = 0; n < size; ++n)
    forEachSuccessor(n, slots, [&](std::uint32_t next) { waits[of(next)] += of(next) != of(n); });
  std::vector<std::uint32_t> order;
  order.reserve(size);
  const auto add = [&](std::uint32_t n) {
    do order.push_back(n);
    while (++n < size && of(n) != n);
  };
  for (std::uint32_t n = 0; n < size; ++n)
    if (of(n) == n && waits[n] == 0) add(n);
  for (std::size_t done = 0; done < order.size(); ++done) {
    const std::uint32_t n = order[done];
    forEachSuccessor(n, slots, [&](std::uint32_t next) {
      if (of(next) != of(n) && --waits[of(next)] == 0) add(of(next));
    });
  }
  return order;
}

std::vector<bool> Graph::after(std::uint32_t node, bool through_messages) const {
  std::vector<bool> seen(nodes_.size());
  std::vector<std::uint32_t> open{node};
  const auto visit = [&](std::uint32_t next) {
    if (seen[next]) return;
    seen[next] = true;
    open.push_back(next);
  };
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    forEachLocalSuccessor(at, visit);
    if (!through_messages) continue;
    forEachMeeting(at, visit);
    for (const std::uint32_t message : sent(at)) visit(messages_[message].to);
  }
  return seen;
}

std::string Graph::describeCycle(const std::vector<std::uint32_t>& order, int depth) const {
  std::vector<bool> done(nodes_.size());
  for (const auto n : order) done[n] = true;

  // Every node that is not done has a predecessor that is not done: walk back until one repeats.
  const auto blocker = [&](std::uint32_t n) -> std::pair<std::uint32_t, std::string> {
    const Node& self = nodes_[n];
    for (const auto message : received(n)) {
      if (message != kNone && !done[messages_[message].from]) {
        return {messages_[message].from,
                "waits for message " + std::to_string(messages_[message].number) + " of " +
                    channelName(messages_[message].channel) + ", sent by "};
      }
    }
    for (const Dependency& d : self.step->after) {
      const auto target = node(self.rank, d.lane, d.step);
      if (!done[target]) return {target, "must run after "};
    }
    if (self.step->is_barrier)
      for (const auto there : meeting(n))
        if (!nodes_[there].first && !done[there - 1]) return {there - 1, "is a barrier after "};
    for (const auto message : sent(n)) {
      const Message& m = messages_[message];
      if (m.number < static_cast<std::uint32_t>(depth)) continue;
      const Message& before = messages_[message - static_cast<std::uint32_t>(depth)];
      if (!done[before.to]) {
        return {before.to, "waits for a free slot of " + channelName(m.channel) + ", freed by "};
      }
    }
    return {n - 1, "comes after "};
  };
  std::uint32_t start = 0;
  while (done[start]) ++start;
  std::vector<bool> seen(nodes_.size());
  for (; !seen[start]; start = blocker(start).first) seen[start] = true;

  constexpr int kLongest = 8; // number of waits in the sentence
  std::string sentence = where(start);
  std::uint32_t n = start;
  for (int i = 0; i < kLongest; ++i) {
    const auto [next, why] = blocker(n);
    sentence += (i == 0 ? " " : ", which ") + why + where(next);
    n = next;
    if (n == start) return sentence;
  }
  return sentence + ", and so on back to the first";
}

std::string Graph::where(std::uint32_t node) const {
  const Node& n = nodes_[node];
  return "rank " + std::to_string(n.rank) + " lane " + std::to_string(n.lane) + " step " +
         std::to_string(n.index);
}

std::string Graph::channelName(std::uint32_t channel) const {
  return "channel " + text(channels_[channel]);
}

} // namespace rondo::plan
