// Where the sends and receives of a group run: in which launch, on which blocks, after which
// others.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "device/residency.h"

namespace rondo::engine {

/// The place of a job. Launches follow each other; in one, lanes run side by side and each does its
/// jobs in this order.
struct Seat {
  std::uint32_t launch = 0, lane = 0, distance = 0, number = 0;
  auto operator<=>(const Seat&) const = default;
};

/// Gives out the seats of one group after the other. What it depends on is the same on all ranks,
/// so that both ends of a message have the same launch, distance and number:
/// kernels/cuda/plan/PROOFS.md argues from this that no two ranks wait for each other.
class BatchLayout {
 public:
  /// `most_copies`: those that a channel has rings for.
  BatchLayout(int rank, int ranks, const device::Residency& residency, std::uint32_t most_copies);

  /// Throws Error(unsupported) where a rank has no block for a send beside one for a receive.
  void check() const { copiesWithin(residency_, 2, 1); }
  /// What a large job is shared out to.
  std::uint32_t copies() const { return copies_; }
  /// Of the next job of a queue, see Engine::submit().
  Seat next(int queue);
  /// A new group begins.
  void clear();

 private:
  const int rank_, ranks_;
  const device::Residency residency_;
  std::uint32_t copies_, lanes_;               ///< lanes: of either direction
  std::uint32_t reach_;                        ///< distances in a launch
  std::uint32_t turns_;                        ///< jobs of one queue in a launch
  std::vector<std::uint32_t> sent_, received_; ///< jobs of the group so far, by distance
};

} // namespace rondo::engine
