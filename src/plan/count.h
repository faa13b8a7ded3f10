// Rounds, bytes and wires of a plan, counted from its steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

class Graph;

/// What is summed up over all windows every rank sends once, and who sums it up receives once; what
/// is stored to all of them its writer sends once, and every rank receives.
///
/// Unit of bytes everywhere here: a block of the call (see plan.h), so 1.5 means 1.5 n. A barrier's
/// blocks are empty, so its bytes are 0.
struct RankCount {
  double sent = 0, received = 0;
  int messages_sent = 0, messages_received = 0;
  int wires_out = 0, wires_in = 0; ///< peers that it sends to, receives from
  int wires = 0;                   ///< peers that it does either with
};

/// One message in its round.
struct Transfer {
  int round = 0; ///< from 1
  Channel channel{};
  Piece shape{}; ///< of the sending step
  double bytes = 0;
  std::uint32_t lane = 0, step = 0; ///< of the sender
  bool between_nodes = false;
};

/// How rounds are counted: a lane is a full-duplex port; in one round it can do one step that sends
/// (to any number of peers) and one step that receives (from any number). In words, with the round
/// S of a step's sends, the round R of its receives, and K, the latest round from which the step
/// knows data: the largest R among itself, earlier steps of its lane, and steps it waits for
/// (`after`), and what these know:
///
///   S = 1 + max(K, S of the lane's previous sending step); at least S of steps waited for
///   R = max(S of every message consumed, 1 + R of the lane's previous receiving step,
///           S of the lane's previous sending step, K before this step, S of steps waited for)
///
/// and of a meeting S = R = K = 1 + the latest round of any rank's lane before it,
///
/// with 0 for what does not exist. So sending follows what was received a round earlier, a receive
/// may share the round of the lane's last send, lanes are ports of their own, and a message that
/// finds the receiving port busy waits for it. The plan's rounds are the largest S or R: ring
/// 2(p-1), binomial tree 2 ceil(log2 p), one-shot 1, parameter server 2.
struct Counts {
  int rounds = 0;
  double total_sent = 0, max_sent = 0;
  double between_nodes = 0; ///< sent to ranks of other nodes of Spec::layout
  std::vector<RankCount> ranks;
  std::vector<Transfer> transfers; ///< sorted by round, then channel

  /// Largest over all channels of what one of them carries, in each round; element 0 is round 1.
  std::vector<double> wireLoad() const;
  /// Largest over all ranks of what one of them sends or, if that is more, receives, in each round.
  std::vector<double> portLoad() const;
};

/// `plans`: those of all ranks. Throws Error(invalid_argument) when they are not well-formed, do
/// not match, or form a cycle without any slots.
Counts count(std::span<const RankPlan> plans);

/// The same for a graph and its order().
Counts count(const Graph& graph, std::span<const std::uint32_t> order);

} // namespace rondo::plan
