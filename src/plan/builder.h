// Writes plans as chains of calls: lane.step().recv(left).with(in(3)).to(out(3)).send(right).
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "plan/plan.h"
#include "rondo/detail/hash.h"

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

/// Collects one rank's plan. A channel is declared at its first use. The steps' shapes and the size
/// of scratch follow from the pieces. The writers refer to the builder and must not outlive it.
class Builder {
 public:
  /// `message_chunks`: see RankPlan.
  Builder(const Spec& spec, int rank, int chunks_per_block = 1, int message_chunks = 1);

  /// Appends a lane.
  LaneWriter lane();
  /// The plan; the builder is empty afterwards.
  RankPlan take() { return std::move(plan_); }

 private:
  friend class LaneWriter;
  friend class StepWriter;
  struct Hash {
    std::size_t operator()(const Channel& channel) const {
      const auto word = [](int part) { return static_cast<std::uint32_t>(part); };
      return detail::mix(detail::mix(std::uint64_t{word(channel.src)} << 32 | word(channel.dst)) +
                         word(channel.index));
    }
  };
  int channel(int src, int dst, int index);
  Piece use(const Piece& piece);

  RankPlan plan_;
  std::unordered_map<Channel, int, Hash> numbers_; ///< of the plan's channels
};

/// The last step of its lane. Operands are combined in the order of the calls, so
/// recv(0).with(in(0)).recv(2) is message op piece op message.
class StepWriter {
 public:
  /// Next operand: the next message from `peer`.
  StepWriter& recv(int peer, int index = 0);
  /// Next operand: a piece of this rank's memory.
  StepWriter& with(const Piece& piece);
  /// The only operand: the sum of a piece of all ranks' windows.
  StepWriter& withSum(const Piece& piece);
  /// Where the value is stored. At most once per step.
  StepWriter& to(const Piece& piece);
  /// The same, in the windows of all ranks.
  StepWriter& toAll(const Piece& piece);
  /// Sends the value to `peer`. Any number of times.
  StepWriter& send(int peer, int index = 0);
  /// Waits for another step of this rank.
  StepWriter& after(const StepWriter& other);
  /// Sets the step's size. Only needed if no piece gives it: a message that is received and passed
  /// on.
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
  /// A barrier of all ranks.
  void meet();

 private:
  friend class Builder;
  LaneWriter(Builder& builder, std::uint32_t lane) : builder_(&builder), lane_(lane) {}

  Builder* builder_;
  std::uint32_t lane_;
};

/// The plan of a single rank: copies input to output if the rank has both, and does nothing for a
/// barrier.
RankPlan alone(const Spec& spec);

/// Whether ranks and root are valid, and no parameter or parts are given. An algorithm without a
/// parameter checks this in supports(), in addition to the collective.
bool plain(const Spec& spec);

} // namespace rondo::plan
