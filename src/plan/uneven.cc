// Follows the sizes of blocks through the plans of all ranks.
#include "plan/uneven.h"

#include <map>
#include <optional>
#include <vector>

namespace rondo::plan {

namespace {

/// Blocks with the same mark have the same size. Nothing else is known about sizes.
using Mark = std::uint32_t;

std::optional<Mark> markOf(const Spec& spec, int rank, const Piece& piece) {
  if (piece.count != 1 || piece.space == Space::scratch || piece.space == Space::window) return {};
  const detail::CollectiveTraits& collective = traits(spec.collective);
  const auto own = static_cast<Mark>(rank), ranks = static_cast<Mark>(spec.ranks);
  const bool of_input = piece.space == Space::input;
  if (!collective.perRank()) return {};
  if (collective.input.perRank() && collective.output.perRank()) // the sender's and the receiver's
    return of_input ? own * ranks + piece.chunk : piece.chunk * ranks + own;
  return (of_input ? collective.input : collective.output).perRank() ? piece.chunk : own;
}

/// The common size of all the step's pieces.
std::optional<Mark> markOf(const RankPlan& plan, const Step& step) {
  std::optional<Mark> mark;
  const auto same = [&](const Piece& piece) {
    const auto one = markOf(plan.spec, plan.rank, piece);
    if (one && !mark) mark = one;
    return one && one == mark;
  };
  for (const Operand& input : step.inputs)
    if (input.local() && !same(input.piece)) return {};
  if (step.output && !same(*step.output)) return {};
  return mark;
}

} // namespace

bool servesUneven(std::span<const RankPlan> plans) {
  // Per channel, the messages in order, as sender and receiver see them.
  std::map<Channel, std::vector<Mark>> sent, received;
  for (const RankPlan& plan : plans) {
    if (plan.chunks_per_block != 1 || plan.message_chunks != 1) return false;
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps) {
        const auto mark = markOf(plan, step);
        if (!mark) return false;
        for (const Operand& input : step.inputs)
          if (!input.local())
            received[plan.channels[static_cast<std::size_t>(input.channel)]].push_back(*mark);
        for (const int channel : step.sends)
          sent[plan.channels[static_cast<std::size_t>(channel)]].push_back(*mark);
      }
  }
  return sent == received;
}

} // namespace rondo::plan
