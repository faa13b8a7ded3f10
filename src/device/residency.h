// How many blocks ranks that share a GPU may launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "rondo/error.h"

namespace rondo::device {

/// A device and those who share it.
struct Residency {
  int blocks = 0; ///< that it holds at once, see Device::residentBlocks()
  int ranks = 1;  ///< on it, in all processes
};

/// How many copies of a plan a rank may launch, so that the blocks of all ranks on the device are
/// resident at once: no more than its share holds, and than are wanted. `lanes`: those of the rank
/// that has most. Copies talk to their like, so all ranks must launch the same number: the least of
/// what they get here. Throws Error(unsupported) when the share does not hold one.
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
