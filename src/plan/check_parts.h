// Functions of the checker, one per obligation. Only for check*.cc, count.cc, lend.cc, put.cc and
// bundle.cc.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/graph.h"

namespace rondo::plan {

/// Collects violations, up to a limit.
class Violations {
 public:
  Violations(Report& report, std::size_t limit) : report_(report), limit_(limit) {}

  bool full() const { return report_.violations.size() >= limit_; }
  std::size_t room() const { return full() ? 0 : limit_ - report_.violations.size(); }
  void add(Obligation obligation, std::string text) const {
    if (!full()) report_.violations.push_back({obligation, std::move(text)});
  }

 private:
  Report& report_;
  std::size_t limit_;
};

/// The positions of a rank's spaces as indices of cells. In place, input and output share cells.
struct Memory {
  std::array<std::uint32_t, 4> begin{}; ///< by Space
  std::uint32_t cells = 0;

  std::uint32_t at(const Piece& piece) const {
    return begin[static_cast<std::size_t>(piece.space)] + piece.chunk;
  }
  bool overlap(const Piece& a, const Piece& b) const {
    return at(a) < at(b) + b.count && at(b) < at(a) + a.count;
  }
};
Memory memoryOf(const RankPlan& plan, bool in_place);
/// Whether communicator.h allows input and output of this rank to share memory.
bool hasInPlace(const Spec& spec, int rank);

/// Whether a step copies a piece of memory onto itself (and perhaps sends it).
bool copiesOntoItself(const Step& step, const Memory& memory);

/// Whether the piece is contiguous: chunks of several blocks may lie apart.
inline bool liesInOneBlock(const Piece& piece, const RankPlan& plan) {
  return piece.chunk % plan.chunks_per_block + piece.count <= plan.chunks_per_block;
}

/// Whether the piece is one range of memory that keeps its content: the next tile reuses scratch
/// and window.
inline bool isLastingRange(const Piece& piece, const RankPlan& plan) {
  return (piece.space == Space::input || piece.space == Space::output) &&
         liesInOneBlock(piece, plan);
}

/// "in[3]", "scratch[0..3]"
std::string text(const Piece& piece);

// Each function returns whether its obligation holds.
bool checkWellFormed(std::span<const RankPlan> plans, const Violations& violations);
std::optional<Graph> checkMatching(std::span<const RankPlan> plans, const Violations& violations);
/// The graph of plans that are well-formed and match. Throws Error(invalid_argument) if they do
/// not, or if the steps form a cycle.
Graph wholeGraph(std::span<const RankPlan> plans);
bool checkRaces(const Graph& graph, std::span<const std::uint32_t> order,
                const Violations& violations);
/// The part of the race check that concerns windows, which several ranks access.
bool checkWindows(const Graph& graph, const Violations& violations);
bool checkDataFlow(const Graph& graph, std::span<const std::uint32_t> order,
                   const Violations& violations, ReductionOrder& reduction);

} // namespace rondo::plan
