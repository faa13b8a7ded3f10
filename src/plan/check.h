// Proves that the plans for one rank count are right, or describes what is wrong.
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

/// The obligations of a plan. Each one is checked only if those that it builds on hold: matching
/// needs well-formed steps, deadlock needs matching, and the rest need an order of the steps.
enum class Obligation : std::uint8_t {
  /// Indices, spaces and shapes fit. The pieces of a step are congruent. Messages are no larger
  /// than the plan says. Input is never written. Each channel is used by one lane, in one
  /// direction, at most once per step, and both ends list it. Ranks agree on spec, chunks and
  /// message size.
  well_formed,
  /// The i-th send and the i-th receive of each channel have the same shape.
  matching,
  /// The graph {lane order, `after`, send i -> receive i, receive i -> send i+D} has no cycle. A
  /// proof for one tile holds for any number of tiles, see Graph::order(). There is also no cycle
  /// if the steps of each bundle are done as one (see bundle.h).
  deadlock,
  /// If different lanes of a rank access a chunk and one of them writes, happens-before orders the
  /// accesses, whatever the depth: slot edges do not count. A step does not overwrite a part of
  /// what it reads. Accesses of different tiles cannot conflict: their input and output are
  /// disjoint, and the engine gives each tile in flight its own scratch.
  race,
  /// Every output chunk gets exactly the contributions that the collective defines, once each, and
  /// nothing undefined is read. The same in place: each step reads the same values as out of place,
  /// so any mix of ranks in place and out of place is right. (Copying a piece onto itself is no
  /// write.) Barrier: some step of every rank happens before the end of every rank.
  data_flow,
  /// Rounds and bytes, counted by the rules in count.h, equal Algorithm::closedForm.
  closed_form,
};
std::string_view name(Obligation obligation);

struct Violation {
  Obligation obligation{};
  std::string text; ///< names rank, lane, step, channel
};

/// The order in which a reducing collective combines contributions. Recorded, not required.
struct ReductionOrder {
  /// Every output chunk is formed by exactly one step, from all ranks' contributions in ascending
  /// rank order; all other steps move data. (Always true for collectives that do not reduce.)
  bool rank_order = true;
  /// All ranks combine a chunk in the same way (up to a + b = b + a), so their floating-point
  /// results are equal bit by bit.
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
  std::vector<Violation> violations; ///< the first ones, up to the limit
  std::vector<int> depths;           ///< depths at which the absence of deadlocks was proved
  ReductionOrder reduction;          ///< valid if data flow holds
  Counts counts;                     ///< empty if the plan cannot run

  bool ok() const { return violations.empty(); }
  /// One line per violation.
  std::string text() const;
};

/// `plans`: of all ranks; element r is rank r's. Throws Error(invalid_argument) for an empty span,
/// for depths below 1 and for sendrecv.
Report check(std::span<const RankPlan> plans, const CheckOptions& options = {});

/// Builds and checks the plans of all ranks. Also proves the closed form, unless the options give
/// another one. Throws Error(invalid_argument) if the algorithm does not support the spec.
Report check(const Algorithm& algorithm, const Spec& spec, const CheckOptions& options = {});

/// The plans of all ranks. Throws the errors of check().
std::vector<RankPlan> buildAll(const Algorithm& algorithm, const Spec& spec);

/// Whether data flow is right and ReductionOrder::rank_order holds (see Facts::inRankOrder()).
bool reducesInRankOrder(std::span<const RankPlan> plans);

} // namespace rondo::plan
