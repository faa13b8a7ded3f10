// Decides where each send and receive of a group runs: in which launch, on which thread blocks, and
// in which order.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "device/residency.h"

namespace rondo::engine {

/// The place of a job. Launches run one after the other. In a launch, lanes run side by side, and
/// each lane does its jobs in ascending order of seats.
struct Seat {
  std::uint32_t launch = 0, lane = 0, distance = 0, number = 0;
  auto operator<=>(const Seat&) const = default;
};

/// Assigns seats to the jobs of one group after the other. The seats depend only on values that are
/// the same on all ranks, so both ends of a message get the same launch, distance and number.
/// kernels/cuda/plan/PROOFS.md derives from this that no two ranks wait for each other.
class BatchLayout {
 public:
  /// `most_copies`: the number of copies that a channel has rings for.
  BatchLayout(int rank, int ranks, const device::Residency& residency, std::uint32_t most_copies);

  /// Throws Error(unsupported) if the rank's share of the device is smaller than two blocks, one
  /// for sends and one for receives.
  void check() const { copiesWithin(residency_, 2, 1); }
  /// The number of copies that share a large job.
  std::uint32_t copies() const { return copies_; }
  /// The seat of the next job of `queue` (as in Engine::submit()).
  Seat next(int queue);
  /// Begins a new group.
  void clear();

 private:
  const int rank_, ranks_;
  const device::Residency residency_;
  std::uint32_t copies_, lanes_;               ///< lanes that send; as many receive
  std::uint32_t reach_;                        ///< distances in one launch
  std::uint32_t turns_;                        ///< jobs of one queue in one launch
  std::vector<std::uint32_t> sent_, received_; ///< jobs of the group so far, by distance
};

} // namespace rondo::engine
