// The steps of all ranks as one graph: which message goes from which step to which, and an order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// One tile of a collective. Nodes are steps, numbered rank by rank, lane by lane, so that steps of
/// a lane are neighbours. Edges: a lane's order, `after`, send -> receive of each message, and from
/// what each rank does before a meeting to what all do behind it.
/// Refers to the plans that it was made of.
class Graph {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Node {
    const Step* step;
    int rank;
    std::uint32_t lane, index;
    bool first; ///< of its lane
  };
  struct Message {
    std::uint32_t from = kNone, to = kNone; ///< nodes
    std::uint32_t channel = 0;              ///< index into channels()
    std::uint32_t number = 0;               ///< on its channel
  };

  /// `plans` are well-formed (see check.h); element r is rank r. Sentences about messages that do
  /// not match are appended to `complaints`, at most `limit`; the graph is whole only if there are
  /// none.
  Graph(std::span<const RankPlan> plans, std::vector<std::string>& complaints, std::size_t limit);

  std::span<const RankPlan> plans() const { return plans_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Channel>& channels() const { return channels_; }
  const std::vector<Message>& messages() const { return messages_; }
  std::uint32_t node(int rank, std::uint32_t lane, std::uint32_t step) const {
    return lane_begin_[static_cast<std::size_t>(rank)][lane] + step;
  }

  /// Message of each operand of the node, kNone for local ones.
  std::span<const std::uint32_t> received(std::uint32_t node) const {
    return {received_.data() + received_begin_[node], received_.data() + received_begin_[node + 1]};
  }
  /// Message of each entry of Step::sends.
  std::span<const std::uint32_t> sent(std::uint32_t node) const {
    return {sent_.data() + sent_begin_[node], sent_.data() + sent_begin_[node + 1]};
  }

  /// Calls visit(node) for what the rank itself runs after the node: the lane's next step and those
  /// that wait for it.
  template <typename Visit>
  void forEachLocalSuccessor(std::uint32_t node, Visit visit) const {
    if (node + 1 < nodes_.size() && !nodes_[node + 1].first) visit(node + 1);
    for (auto i = dependents_begin_[node]; i < dependents_begin_[node + 1]; ++i) {
      visit(dependents_[i]);
    }
  }

  /// Nodes in an order that respects all edges, shorter than nodes() if there is a cycle. With a
  /// depth, also the edges of full channels: receive i -> send i + depth.
  ///
  /// One tile is enough to find the deadlocks of all tiles. As each channel carries the same number
  /// of messages in every tile, `after`, lane and message edges lead to the same tile or (from a
  /// lane's end to its start) to the next, slot edges to the same tile or a later one, none back. A
  /// cycle would have to stay inside one tile, and all tiles are alike.
  ///
  /// `first`: for each node the one that it is done together with, the first of its bundle (see
  /// bundle.h); empty: each is done alone. Nodes of a bundle follow each other.
  std::vector<std::uint32_t> order(std::optional<int> depth = {},
                                   std::span<const std::uint32_t> first = {}) const;

  /// Calls visit(node) for the steps of other ranks that meet when the node is done.
  template <typename Visit>
  void forEachMeeting(std::uint32_t node, Visit visit) const {
    if (node + 1 == nodes_.size() || nodes_[node + 1].first || !nodes_[node + 1].step->is_barrier)
      return;
    for (const std::uint32_t there : meetings_[meeting_[node + 1]])
      if (there != node + 1) visit(there);
  }
  /// The steps of all ranks that meet with a step that does.
  std::span<const std::uint32_t> meeting(std::uint32_t node) const {
    return meetings_[meeting_[node]];
  }

  /// What comes after a node, by number: by the order of lanes and `after`, and by messages and
  /// meetings too.
  std::vector<bool> after(std::uint32_t node, bool through_messages) const;

  /// Which wait follows which, around a cycle that order(depth) found.
  std::string describeCycle(const std::vector<std::uint32_t>& order, int depth) const;

  /// "rank 2 lane 0 step 5"
  std::string where(std::uint32_t node) const;
  /// "channel 0->1", "channel 0->1#2" for index 2
  std::string channelName(std::uint32_t channel) const;

 private:
  template <typename Visit>
  void forEachSuccessor(std::uint32_t node, std::uint32_t depth, Visit visit) const;
  void addNodes();
  void addMessages(std::vector<std::string>& complaints, std::size_t limit);
  void addChannels();
  /// Numbers the messages of each channel, whose two ends must see equally many.
  void countMessages(std::vector<std::string>& complaints, std::size_t limit);
  void linkMessages();
  void compareShapes(std::vector<std::string>& complaints, std::size_t limit) const;
  std::uint32_t globalOf(const Node& node, int channel) const;
  void addMeetings(std::vector<std::string>& complaints, std::size_t limit);
  void addDependents();

  std::span<const RankPlan> plans_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::uint32_t>> lane_begin_; ///< [rank][lane]
  std::vector<Channel> channels_;
  std::vector<std::vector<std::uint32_t>> global_; ///< index in channels_, [rank][local channel]
  std::vector<std::uint32_t> channel_begin_;       ///< first message of each channel
  std::vector<Message> messages_;
  std::vector<std::uint32_t> received_begin_, received_, sent_begin_, sent_;
  std::vector<std::uint32_t> dependents_begin_, dependents_;
  std::vector<std::vector<std::uint32_t>> meetings_; ///< each a node of every rank
  std::vector<std::uint32_t> meeting_;               ///< of each node: its number, or kNone
};

/// "0->1" or "0->1#2"
std::string text(const Channel& channel);

} // namespace rondo::plan
