// Computes how many thread blocks the ranks that share a GPU may launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "rondo/error.h"

namespace rondo::device {

/// The blocks of a device, and the ranks that share it.
struct Residency {
  int blocks = 0; ///< that can be resident at once, see Device::residentBlocks()
  int ranks = 1;  ///< on the device, in all processes
};

/// The number of copies of a plan that a rank may launch, at most `wanted`, so that the blocks of
/// all ranks on the device are resident at once. `lanes`: of the rank that has most. Copies
/// communicate with the same copy on other ranks, so all ranks must launch the same number: the
/// minimum over all ranks. Throws Error(unsupported) if the share is too small for one copy.
inline std::uint32_t copiesWithin(const Residency& residency, std::uint32_t lanes,
                                  std::uint32_t wanted) {
  const auto share = static_cast<std::uint32_t>(residency.blocks / std::max(residency.ranks, 1));
  if (share < lanes)
    throw Error(ErrorCode::unsupported,
                "the plan needs " + std::to_string(lanes) +
                    " thread blocks at once on each rank, but the GPU holds " +
                    std::to_string(residency.blocks) + " for " + std::to_string(residency.ranks) +
                    " ranks: use fewer ranks per GPU");
  return std::clamp(wanted, std::uint32_t{1}, lanes == 0 ? 1 : share / lanes);
}

} // namespace rondo::device
