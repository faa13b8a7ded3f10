// Which messages may be written straight to where their receivers would put them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// Where a step only receives a message and stores it, the sender may do so in its place, if it can
/// see that memory: the message *lands*. The receiver says where in a message that it sends to the
/// step that answers, which is how an AllReduce by `direct` goes: who gets a part of the input may
/// write the result there.
///
/// Nothing else of the receiver's, and nobody who reads what it lends, touches that place between
/// the two steps, in place neither, by nothing but the order of lanes, `after` and messages; but
/// for the answering step itself, which has read each element before it writes it. The messages
/// stay, so landing adds no wait and takes none away.
class Landing {
 public:
  /// `plans`: of all ranks, in order; for blocks of one size.
  explicit Landing(std::span<const RankPlan> plans);

  /// Of a step whose messages all land: for each of its sends the input whose message says where.
  /// Else empty.
  const std::vector<std::uint32_t>& addressInputs(int rank, std::uint32_t lane,
                                                  std::uint32_t step) const {
    return of(rank, lane, step).address_inputs;
  }
  /// The step of the rank whose output this one's message says to its receiver, if it does.
  const std::optional<Dependency>& announces(int rank, std::uint32_t lane,
                                             std::uint32_t step) const {
    return of(rank, lane, step).announces;
  }
  /// Whether the step finds its message where it would put it.
  bool writtenBySender(int rank, std::uint32_t lane, std::uint32_t step) const {
    return of(rank, lane, step).written_by_sender;
  }

 private:
  struct StepLanding {
    std::vector<std::uint32_t> address_inputs;
    std::optional<Dependency> announces;
    bool written_by_sender = false;
  };
  const StepLanding& of(int rank, std::uint32_t lane, std::uint32_t step) const {
    return parts_[static_cast<std::size_t>(rank)][lane][step];
  }

  std::vector<std::vector<std::vector<StepLanding>>> parts_; ///< [rank][lane][step]
};

} // namespace rondo::plan
