// The steps of all ranks as one graph: messages between steps, and an order of the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// One tile of a collective. Nodes are steps, numbered rank by rank and lane by lane, so the steps
/// of a lane are adjacent. Edges: lane order, `after`, send -> receive of each message, and from
/// every rank's steps before a barrier to all ranks' steps after it. Refers to the plans that it
/// was made from.
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

  /// `plans` must be well-formed (see check.h); element r is rank r's. Descriptions of messages
  /// that do not match are appended to `complaints`, at most `limit`. The graph is complete only if
  /// there are none.
  Graph(std::span<const RankPlan> plans, std::vector<std::string>& complaints, std::size_t limit);

  std::span<const RankPlan> plans() const { return plans_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Channel>& channels() const { return channels_; }
  const std::vector<Message>& messages() const { return messages_; }
  std::uint32_t node(int rank, std::uint32_t lane, std::uint32_t step) const {
    return lane_begin_[static_cast<std::size_t>(rank)][lane] + step;
  }

  /// The message of each operand of the node; kNone for local operands.
  std::span<const std::uint32_t> received(std::uint32_t node) const {
    return {received_.data() + received_begin_[node], received_.data() + received_begin_[node + 1]};
  }
  /// The message of each entry of Step::sends.
  std::span<const std::uint32_t> sent(std::uint32_t node) const {
    return {sent_.data() + sent_begin_[node], sent_.data() + sent_begin_[node + 1]};
  }

  /// Calls visit(node) for the successors on the same rank: the lane's next step, and steps that
  /// wait for it by `after`.
  template <typename Visit>
  void forEachLocalSuccessor(std::uint32_t node, Visit visit) const {
    if (node + 1 < nodes_.size() && !nodes_[node + 1].first) visit(node + 1);
    for (auto i = dependents_begin_[node]; i < dependents_begin_[node + 1]; ++i) {
      visit(dependents_[i]);
    }
  }

  /// The nodes in an order that respects all edges; shorter than nodes() if there is a cycle. With
  /// a depth, the edges of full channels count too: receive i -> send i + depth.
  ///
  /// One tile is enough to find the deadlocks of all tiles. Each channel carries the same number of
  /// messages in every tile. So `after`, lane and message edges lead to the same tile or (from a
  /// lane's end to its start) to the next one; slot edges lead to the same tile or a later one; no
  /// edge leads back. A cycle would have to stay in one tile, and all tiles are alike.
  ///
  /// `first`: for each node the first node of its bundle (see bundle.h), with which it is done.
  /// Empty: no bundles. The nodes of a bundle are adjacent.
  std::vector<std::uint32_t> order(std::optional<int> depth = {},
                                   std::span<const std::uint32_t> first = {}) const;

  /// If a barrier follows `node` in its lane: calls visit() with each other rank's step of this
  /// barrier; these steps wait for `node`.
  template <typename Visit>
  void forEachMeeting(std::uint32_t node, Visit visit) const {
    if (node + 1 == nodes_.size() || nodes_[node + 1].first || !nodes_[node + 1].step->is_barrier)
      return;
    for (const std::uint32_t there : meetings_[meeting_[node + 1]])
      if (there != node + 1) visit(there);
  }
  /// The steps of all ranks that form one barrier with this step.
  std::span<const std::uint32_t> meeting(std::uint32_t node) const {
    return meetings_[meeting_[node]];
  }

  /// By node: whether it comes after `node` by lane order and `after`; with `through_messages` also
  /// by messages and barriers.
  std::vector<bool> after(std::uint32_t node, bool through_messages) const;

  /// Describes the waits around a cycle that order(depth) found.
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
  /// Numbers the messages of each channel. Both ends must have equally many.
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
  std::vector<std::vector<std::uint32_t>> meetings_; ///< each has a node of every rank
  std::vector<std::uint32_t> meeting_; ///< of each node: the number of its barrier, or kNone
};

/// "0->1" or "0->1#2"
std::string text(const Channel& channel);

} // namespace rondo::plan
