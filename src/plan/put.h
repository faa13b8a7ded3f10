// Finds messages that the sender may put, that is, write directly to their final place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// If a step only receives a message and stores it, the sender can write the message there
/// directly, if it can access that memory. This is a *put*, as in MPI and UCX. The sender learns
/// the address from an earlier message of the receiver, which the sending step has as an input; so
/// this step is called the answering step. Example: in a `direct` AllReduce, rank A sends a part of
/// its input to rank B; B writes the result directly to A's output.
///
/// From the announcement until the answer is received, no other step of the receiver may touch the
/// place, and no rank may read a loan there; the same in place. The order of lanes, `after` and
/// messages alone must ensure this. The answering step itself may read there, since it reads each
/// element before it writes it. The messages remain, so a put adds and removes no wait.
class Puts {
 public:
  /// `plans`: of all ranks, in order, for blocks of one size.
  explicit Puts(std::span<const RankPlan> plans);

  /// For a step whose messages are all put: for each of its sends, the input whose message has the
  /// address. Otherwise empty.
  const std::vector<std::uint32_t>& addressInputs(int rank, std::uint32_t lane,
                                                  std::uint32_t step) const {
    return of(rank, lane, step).address_inputs;
  }
  /// The step of this rank whose output address this step's message announces to its receiver, if
  /// any.
  const std::optional<Dependency>& announces(int rank, std::uint32_t lane,
                                             std::uint32_t step) const {
    return of(rank, lane, step).announces;
  }
  /// Whether the sender has already written the step's message to its final place.
  bool writtenBySender(int rank, std::uint32_t lane, std::uint32_t step) const {
    return of(rank, lane, step).written_by_sender;
  }

 private:
  struct StepPut {
    std::vector<std::uint32_t> address_inputs;
    std::optional<Dependency> announces;
    bool written_by_sender = false;
  };
  const StepPut& of(int rank, std::uint32_t lane, std::uint32_t step) const {
    return parts_[static_cast<std::size_t>(rank)][lane][step];
  }

  std::vector<std::vector<std::vector<StepPut>>> parts_; ///< [rank][lane][step]
};

} // namespace rondo::plan
