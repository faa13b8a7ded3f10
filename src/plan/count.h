// Counts rounds, bytes and wires of a plan from its steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

class Graph;

/// Traffic of one rank. For a sum over all windows, every rank sends once, and the rank that reads
/// the sum receives once. For a store to all windows, the writer sends once, and every rank
/// receives once.
///
/// Bytes are counted in blocks of the call (see plan.h), so 1.5 means 1.5 n. A barrier's blocks are
/// empty, so its bytes are 0.
struct RankCount {
  double sent = 0, received = 0;
  int messages_sent = 0, messages_received = 0;
  int wires_out = 0, wires_in = 0; ///< number of peers that it sends to, receives from
  int wires = 0;                   ///< number of peers in either direction
};

/// One message, with its round.
struct Transfer {
  int round = 0; ///< from 1
  Channel channel{};
  Piece shape{}; ///< of the sending step
  double bytes = 0;
  std::uint32_t lane = 0, step = 0; ///< of the sender
  bool between_nodes = false;
};

/// The rules for counting rounds. A lane is a full-duplex port: in one round it can do one step
/// that sends (to any number of peers) and one step that receives (from any number). Let S be the
/// round of a step's sends, R the round of its receives, and K the latest round from which the step
/// has data: the largest R among itself, earlier steps of its lane, and steps that it waits for
/// (`after`), including the K of these. Then
///
///   S = 1 + max(K, S of the lane's previous sending step); at least S of steps waited for
///   R = max(S of every message consumed, 1 + R of the lane's previous receiving step,
///           S of the lane's previous sending step, K before this step, S of steps waited for)
///
/// and for a barrier S = R = K = 1 + the latest round of any rank's lane before it,
///
/// with 0 for terms that do not exist. So a send follows the receive of an earlier round; a receive
/// may share the round of the lane's last send; lanes are independent ports; and a message waits
/// for a busy receiving port. The plan's rounds are the largest S or R: ring 2(p-1), binomial tree
/// 2 ceil(log2 p), one-shot 1, parameter server 2.
struct Counts {
  int rounds = 0;
  double total_sent = 0, max_sent = 0;
  double between_nodes = 0; ///< sent to ranks on other nodes of Spec::layout
  std::vector<RankCount> ranks;
  std::vector<Transfer> transfers; ///< sorted by round, then channel

  /// For each round, the largest load of any channel; element 0 is round 1.
  std::vector<double> wireLoad() const;
};

/// `plans`: of all ranks. Throws Error(invalid_argument) if they are not well-formed, do not match,
/// or form a cycle even without slot limits.
Counts count(std::span<const RankPlan> plans);

/// The same for a graph and its order().
Counts count(const Graph& graph, std::span<const std::uint32_t> order);

} // namespace rondo::plan
