// Plans written as one says them: lane.step().recv(left).with(in(3)).to(out(3)).send(right).
#pragma once

#include <cstdint>
#include <utility>

#include "plan/plan.h"

namespace rondo::plan {

constexpr Piece in(int chunk, int count = 1) {
  return {Space::input, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(count)};
}
constexpr Piece out(int chunk, int count = 1) {
  return {Space::output, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(count)};
}
constexpr Piece scratch(int chunk, int count = 1) {
  return {Space::scratch, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(count)};
}

constexpr Piece window(int chunk, int count = 1) {
  return {Space::window, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(count)};
}

class LaneWriter;
class StepWriter;

/// Collects one rank's plan. Channels are declared when first used; the steps' shapes and the size
/// of the scratch space follow from the pieces named. The writers refer to the builder: they must
/// not outlive it.
class Builder {
 public:
  /// `message_chunks`: see RankPlan.
  Builder(const Spec& spec, int rank, int chunks_per_block = 1, int message_chunks = 1);

  /// A new lane, after the ones made so far.
  LaneWriter lane();
  /// The plan; the builder is empty afterwards.
  RankPlan take() { return std::move(plan_); }

 private:
  friend class LaneWriter;
  friend class StepWriter;
  int channel(int src, int dst, int index);
  Piece use(const Piece& piece);

  RankPlan plan_;
};

/// The step made last in its lane. Operands are combined in the order in which they are named, so
/// that recv(0).with(in(0)).recv(2) is message op piece op message.
class StepWriter {
 public:
  /// Next operand: the next message from `peer`.
  StepWriter& recv(int peer, int index = 0);
  /// Next operand: a piece of this rank's memory.
  StepWriter& with(const Piece& piece);
  /// The only operand: the sum of a piece of all ranks' windows.
  StepWriter& withSum(const Piece& piece);
  /// Where the value is stored. At most once.
  StepWriter& to(const Piece& piece);
  /// The same, in all ranks' windows.
  StepWriter& toAll(const Piece& piece);
  /// The value is sent to `peer`. Any number of times.
  StepWriter& send(int peer, int index = 0);
  /// Waits for another step of this rank.
  StepWriter& after(const StepWriter& other);
  /// Only needed when no piece tells the size: a message that is received and passed on.
  StepWriter& shaped(const Piece& piece);

 private:
  friend class LaneWriter;
  StepWriter(Builder& builder, std::uint32_t lane, std::uint32_t step)
      : builder_(&builder), lane_(lane), step_(step) {}
  Step& step() { return builder_->plan_.lanes[lane_].steps[step_]; }

  Builder* builder_;
  std::uint32_t lane_, step_;
};

/// Appends steps to one lane.
class LaneWriter {
 public:
  StepWriter step();

  StepWriter send(const Piece& piece, int peer, int index = 0) {
    return step().with(piece).send(peer, index);
  }
  StepWriter recv(int peer, const Piece& piece, int index = 0) {
    return step().recv(peer, index).to(piece);
  }
  StepWriter copy(const Piece& from, const Piece& to) { return step().with(from).to(to); }
  /// All ranks meet.
  void meet();

 private:
  friend class Builder;
  LaneWriter(Builder& builder, std::uint32_t lane) : builder_(&builder), lane_(lane) {}

  Builder* builder_;
  std::uint32_t lane_;
};

/// What every algorithm does with one rank: input to output, and nothing for a barrier.
RankPlan alone(const Spec& spec);

/// Whether ranks and root make sense, and neither a parameter nor parts were given: what the
/// supports() of an algorithm without parameter asks beside the collective.
bool plain(const Spec& spec);

} // namespace rondo::plan
