// Which neighbouring steps of a lane may be done as one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

class Graph;

/// Threads of a device's warp, which tell other ends by one fence.
inline constexpr std::size_t kWarp = 32;

/// A bundle is neighbouring steps of a lane that only send, or only receive, each on channels of
/// its own. Done as one, they wait for all their messages or slots together, move, and then tell
/// all other ends: one wait in place of several, where each of these would last as long.
///
/// No plan waits in a circle because of it. All that a sending bundle waits for behind its first
/// step is room, and since its channels carry one message a tile, that is given back by steps of
/// earlier tiles. All that others await of a receiving bundle before its last step is room as well,
/// for later tiles. No edge leads back to an earlier tile, so a circle through a bundle is one
/// through its steps. The checker proves it of each plan besides (see Obligation::deadlock).
///
/// Not for blocks of different sizes, where steps of a bundle take part in different tiles.
class Bundles {
 public:
  /// Inputs and outputs of a bundle at most: on a device those of one warp, whose threads tell all
  /// other ends at once. More steps would also make the first message wait for long.
  static constexpr std::size_t kMostPlaces = kWarp;

  explicit Bundles(const RankPlan& plan);

  /// Steps of the bundle that begins with the step, 1 where it is alone; 0 where one goes on.
  std::uint32_t size(std::uint32_t lane, std::uint32_t step) const { return sizes_[lane][step]; }

 private:
  std::vector<std::vector<std::uint32_t>> sizes_; ///< [lane][step]
};

/// For each node of the graph the first of its bundle, as Graph::order() takes it.
std::vector<std::uint32_t> bundledNodes(const Graph& graph);

} // namespace rondo::plan
