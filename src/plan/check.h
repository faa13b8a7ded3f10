// Proves that a plan is right, for one rank count, or says in a sentence what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/count.h"
#include "plan/plan.h"

namespace rondo::plan {

/// What a plan must satisfy. Each is looked at only when those before it that it builds on hold:
/// without well-formed steps no matching, without matching no deadlock, without an order no rest.
enum class Obligation : std::uint8_t {
  /// Indices, spaces and shapes fit, pieces of a step are congruent, messages are no larger than
  /// the plan says, input is never written, each channel is used by one lane, in one direction, at
  /// most once per step, and known to both ends. Ranks agree on spec, chunks and message size.
  well_formed,
  /// The i-th send and the i-th receive of each channel agree in shape.
  matching,
  /// The graph {lane order, `after`, send i -> receive i, receive i -> send i+D} has no cycle. One
  /// tile proves it for any number of tiles, see Graph::order(). Nor has it one where the steps of
  /// each bundle are done as one (see bundle.h).
  deadlock,
  /// Accesses of one chunk by different lanes of a rank, one of which writes, are ordered by
  /// happens-before, whatever the depth: slot edges do not count as order. A step does not write
  /// over a part of what it reads. Accesses of different tiles cannot meet: input and output of
  /// tiles are disjoint, and the engine gives each tile in flight its own scratch.
  race,
  /// Every output chunk gets exactly the contributions that the collective promises, once each, and
  /// nothing undefined is ever read. In place too: each step then reads what it reads out of place,
  /// so any mix of ranks in place and not is right. (A copy of a piece onto itself is no write.)
  /// Barrier: a step of every rank happens before the end of every rank.
  data_flow,
  /// Rounds and bytes, counted as count.h says, equal Algorithm::closedForm.
  closed_form,
};
std::string_view name(Obligation obligation);

struct Violation {
  Obligation obligation{};
  std::string text; ///< names rank, lane, step, channel
};

/// In which order a reducing collective combines contributions. Recorded, not demanded.
struct ReductionOrder {
  /// Every output chunk is formed by exactly one step, over all ranks' contributions in ascending
  /// rank order; everything else moves data. (Always true of collectives that do not reduce.)
  bool rank_order = true;
  /// All ranks combine a chunk in the same way (up to a + b = b + a), so that they get the same
  /// bits from floating-point sums.
  bool agrees = true;
  /// Chunk 0 of the first rank that has one, as a formula of ranks: "((3 + 0) + 1) + 2".
  std::string example;
};

struct CheckOptions {
  std::vector<int> depths{1, 2, 8};
  std::optional<ClosedForm> closed_form{};
  std::size_t max_violations = 8;
};

struct Report {
  std::vector<Violation> violations; ///< the first ones
  std::vector<int> depths;           ///< at which no deadlock was proved
  ReductionOrder reduction;          ///< as far as data flow holds
  Counts counts;                     ///< empty if the plan cannot run

  bool ok() const { return violations.empty(); }
  /// One line per violation.
  std::string text() const;
};

/// `plans`: those of all ranks, element r is rank r.
/// Throws Error(invalid_argument) for an empty span, for depths below 1 and for sendrecv.
Report check(std::span<const RankPlan> plans, const CheckOptions& options = {});

/// Builds the plans of all ranks; also proves the closed form, unless the options hold another.
/// Throws Error(invalid_argument) when the algorithm does not support the spec.
Report check(const Algorithm& algorithm, const Spec& spec, const CheckOptions& options = {});

/// Plans of all ranks. Throws as check().
std::vector<RankPlan> buildAll(const Algorithm& algorithm, const Spec& spec);

/// Whether data flow is right and ReductionOrder::rank_order holds (see Facts::inRankOrder()).
bool reducesInRankOrder(std::span<const RankPlan> plans);

} // namespace rondo::plan
