// Finds neighbouring steps of a lane that can be done as one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

class Graph;

/// Threads of a device's warp, which signal other ends after one common fence.
inline constexpr std::size_t kWarp = 32;

/// A bundle is a sequence of steps of a lane that only send, or only receive, each on channels of
/// its own. Done as one, they wait for all their messages or slots together, move the data, and
/// then signal all other ends. One wait replaces several that would each take as long.
///
/// Bundles cause no deadlock. After its first step, a sending bundle waits only for free slots. Its
/// channels carry one message per tile, so steps of earlier tiles free these slots. What other
/// ranks need from a receiving bundle before its last step is also only free slots, for later
/// tiles. No edge leads back to an earlier tile, so a cycle through a bundle would be a cycle
/// through its steps. The checker also proves it for each plan (see Obligation::deadlock).
///
/// Not for blocks of different sizes, where the steps of a bundle would take part in different
/// tiles.
class Bundles {
 public:
  /// Largest number of inputs and outputs of a bundle. On a device one warp signals all other ends
  /// at once. More steps would also delay the first message.
  static constexpr std::size_t kMostPlaces = kWarp;

  explicit Bundles(const RankPlan& plan);

  /// Number of steps in the bundle that starts with this step; 1 if it is alone; 0 inside a bundle.
  std::uint32_t size(std::uint32_t lane, std::uint32_t step) const { return sizes_[lane][step]; }

 private:
  std::vector<std::vector<std::uint32_t>> sizes_; ///< [lane][step]
};

/// For each node of the graph, the first node of its bundle, as Graph::order() expects it.
std::vector<std::uint32_t> bundledNodes(const Graph& graph);

} // namespace rondo::plan
