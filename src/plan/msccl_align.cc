// Places scratch chunks of imported plans at the positions of the data that they hold.
#include <algorithm>
#include <map>
#include <numeric>

#include "plan/msccl_align.h"

namespace rondo::plan {

namespace {

/// Sets of chunks that hold the same part of a block. The first nodes are the positions 0 to k - 1
/// themselves.
class Positions {
 public:
  static constexpr int kUnknown = -1;

  explicit Positions(std::uint32_t k) : parent_(k), position_(k) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    std::iota(position_.begin(), position_.end(), 0);
  }

  /// Adds nodes of unknown position; returns the first.
  std::size_t add(std::size_t count) {
    const std::size_t first = parent_.size();
    for (std::size_t i = 0; i < count; ++i) {
      parent_.push_back(first + i);
      position_.push_back(kUnknown);
    }
    return first;
  }
  /// Sets of different positions stay apart: the checker refuses such plans.
  void unite(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    if (position_[a] != kUnknown && position_[b] != kUnknown) return;
    if (position_[a] == kUnknown) std::swap(a, b);
    parent_[b] = a;
  }
  int of(std::size_t node) { return position_[find(node)]; }

 private:
  std::size_t find(std::size_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  std::vector<std::size_t> parent_;
  std::vector<int> position_;
};

class Alignment {
 public:
  explicit Alignment(ImportedPlans& imported)
      : imported_(imported),
        k_(imported.plans.front().chunks_per_block),
        positions_(imported.plans.front().chunks_per_block) {
    for (const RankPlan& plan : imported.plans)
      scratch_.push_back(positions_.add(plan.scratch_chunks));
    for (const RankPlan& plan : imported.plans) follow(plan);
  }

  /// Whether all scratch chunks are where their data belong.
  bool holds() {
    for (std::size_t r = 0; r < imported_.plans.size(); ++r)
      for (std::uint32_t c = 0; c < imported_.plans[r].scratch_chunks; ++c)
        if (const int at = positions_.of(scratch_[r] + c);
            at != Positions::kUnknown && static_cast<std::uint32_t>(at) != c % k_)
          return false;
    return true;
  }

  bool apply(std::uint64_t most) {
    std::vector<std::vector<std::uint32_t>> places; // by rank
    std::vector<std::uint32_t> chunks;
    for (std::size_t r = 0; r < imported_.plans.size(); ++r) {
      std::vector<std::uint32_t> used(k_);
      auto& own = places.emplace_back();
      std::uint64_t end = 0;
      for (std::uint32_t c = 0; c < imported_.plans[r].scratch_chunks; ++c) {
        const int at = positions_.of(scratch_[r] + c);
        const auto position = at == Positions::kUnknown ? c % k_ : static_cast<std::uint32_t>(at);
        const std::uint64_t place = std::uint64_t{used[position]++} * k_ + position;
        end = std::max(end, place + 1);
        if (end > most) return false;
        own.push_back(static_cast<std::uint32_t>(place));
      }
      most -= end;
      chunks.push_back(static_cast<std::uint32_t>(end));
    }
    for (std::size_t r = 0; r < imported_.plans.size(); ++r) {
      RankPlan& plan = imported_.plans[r];
      split(plan, imported_.lines[r], places[r]);
      plan.scratch_chunks = chunks[r];
      plan.message_chunks = 1;
    }
    return true;
  }

 private:
  /// The chunks of an operand, of the output and of all messages of a step are the same part.
  void follow(const RankPlan& plan) {
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps)
        for (std::uint32_t j = 0; j < step.shape.count; ++j) {
          const std::size_t own = node(plan, step, j);
          for (const Operand& input : step.inputs)
            positions_.unite(
                own, input.local() ? node(plan, input.piece, j) : message(plan, input.channel));
          if (step.output) positions_.unite(own, node(plan, *step.output, j));
          for (const int channel : step.sends) positions_.unite(own, message(plan, channel));
        }
  }

  /// A node for the step's value.
  std::size_t node(const RankPlan& plan, const Step& step, std::uint32_t j) {
    if (step.output) return node(plan, *step.output, j);
    for (const Operand& input : step.inputs)
      if (input.local()) return node(plan, input.piece, j);
    return positions_.add(1);
  }
  std::size_t node(const RankPlan& plan, const Piece& piece, std::uint32_t j) const {
    if (piece.space == Space::scratch)
      return scratch_[static_cast<std::size_t>(plan.rank)] + piece.chunk + j;
    return (piece.chunk + j) % k_;
  }
  /// The next chunk of a channel, counted separately at its two ends.
  std::size_t message(const RankPlan& plan, int number) {
    const Channel& channel = plan.channels[static_cast<std::size_t>(number)];
    auto& nodes = messages_[channel];
    std::size_t& next = next_[{channel, channel.src == plan.rank}];
    while (nodes.size() <= next) nodes.push_back(positions_.add(1));
    return nodes[next++];
  }

  /// Cuts steps into chunks, because consecutive chunks of scratch need not stay consecutive.
  static void split(RankPlan& plan, std::vector<std::vector<int>>& lines,
                    const std::vector<std::uint32_t>& places) {
    std::vector<std::vector<std::uint32_t>> ends; // by lane and step: its last one from now on
    for (const Lane& lane : plan.lanes) {
      auto& of_lane = ends.emplace_back();
      std::uint32_t count = 0;
      for (const Step& step : lane.steps) of_lane.push_back((count += step.shape.count) - 1);
    }
    const auto chunkOf = [&](Piece piece, std::uint32_t j) {
      piece.chunk = piece.space == Space::scratch ? places[piece.chunk + j] : piece.chunk + j;
      piece.count = 1;
      return piece;
    };
    for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
      std::vector<Step> steps;
      std::vector<int> of_steps;
      for (std::size_t s = 0; s < plan.lanes[l].steps.size(); ++s) {
        const Step& whole = plan.lanes[l].steps[s];
        for (std::uint32_t j = 0; j < whole.shape.count; ++j) {
          Step& step = steps.emplace_back(whole);
          of_steps.push_back(lines[l][s]);
          Piece any{};
          for (Operand& input : step.inputs)
            if (input.local()) any = input.piece = chunkOf(input.piece, j);
          if (step.output) any = *(step.output = chunkOf(*step.output, j));
          step.shape = {Space::input, any.chunk, 1};
          if (j > 0) step.after.clear(); // those of the first one, in the same lane
          for (Dependency& after : step.after) after.step = ends[after.lane][after.step];
        }
      }
      plan.lanes[l].steps = std::move(steps);
      lines[l] = std::move(of_steps);
    }
  }

  ImportedPlans& imported_;
  const std::uint32_t k_;
  Positions positions_;
  std::vector<std::size_t> scratch_; ///< by rank: the node of its first chunk
  std::map<Channel, std::vector<std::size_t>> messages_;
  std::map<std::pair<Channel, bool>, std::size_t>
      next_; ///< by channel and whether it is the sender
};

} // namespace

bool alignScratch(ImportedPlans& imported, std::uint64_t most) {
  Alignment alignment(imported);
  return alignment.holds() || alignment.apply(most);
}

} // namespace rondo::plan
