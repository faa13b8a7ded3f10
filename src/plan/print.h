// Prints plans as text, for `rondo plan`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/plan.h"

namespace rondo::plan {

struct PrintOptions {
  std::vector<int> ranks{}; ///< ranks whose steps and messages are printed; empty: the first 8
  std::vector<int> depths{1, 2, 8};  ///< depths at which the plan is checked
  std::vector<std::size_t> blocks{}; ///< bytes of blocks whose tiles are printed
  bool steps = true;
  bool rounds = false; ///< also prints the messages of each round
};

/// Summary, counts, proof, steps and rounds of the algorithm's plans.
/// Throws Error(invalid_argument) for unsupported specs and for ranks out of range.
std::string explain(const Algorithm& algorithm, const Spec& spec, const PrintOptions& options = {});

/// "4 ranks, 4 chunks, 6 rounds, each rank sends 1.5 n over 1 wire and receives over 1"
std::string summarize(const RankPlan& plan, const Counts& counts);

/// "blocks of 1048576 B: 8 tiles of 131072 B, messages of up to 32768 B", for messages that may
/// hold `message_bytes`.
std::string describeTiles(const RankPlan& plan, std::size_t block_bytes, std::size_t message_bytes);

/// One line per step: "rank 0   recv+reduce+send  in[3]  3 -> 1". Pieces are named as in plan.h;
/// "in[1]=>out" is short for in[1]=>out[1]. Left of the arrow are the ranks that it receives from,
/// right of it those that it sends to ("1#2": channel index 2). With several lanes, each step shows
/// its lane.
std::string describeSteps(const RankPlan& plan);

/// One paragraph per round: "round 1  0 -> 1 [0], 1 -> 2 [1]". The brackets hold the chunks; "=>"
/// marks messages to another node. Only messages from or to `ranks`; empty: all.
std::string describeRounds(const Counts& counts, std::span<const int> ranks = {});

} // namespace rondo::plan
