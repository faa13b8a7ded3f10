// The calls that the grids on devices test.
#pragma once

#include <string>
#include <vector>

#include "device/device_ranks.h"
#include "plan/registry.h"

namespace rondo::test {

/// Slots hold 1 KiB, 256 elements of 4 bytes. So 20011 elements make many tiles (unless messages
/// are lent) and need the simple protocol. Smaller counts use packets if the algorithm has one
/// lane.
inline const std::vector<std::size_t> kCounts =
    kWholeGrid ? std::vector<std::size_t>{0, 1, 7, 257, 1021, 20'011}
               : std::vector<std::size_t>{0, 1, 1021, 12'001};

inline Options smallSlots(const std::string& transport, const std::string& algorithm = "") {
  Options options = onDevice(transport, algorithm);
  options.channel_bytes = 4 << 10;
  options.channel_depth = 4;
  return options;
}

/// Every collective that the algorithm supports; null: the planner chooses the algorithm.
inline std::vector<CollectiveCase> casesOf(const plan::Algorithm* algorithm, int ranks) {
  std::vector<CollectiveCase> cases;
  for (Collective collective : kCollectives) {
    if (collective == Collective::sendrecv) continue;
    if (algorithm && !algorithm->supports({collective, ranks, 0, 0})) continue;
    for (std::size_t count : kCounts)
      for (bool in_place : {false, true}) {
        if (in_place && !traits(collective).in_place) continue;
        if (collective == Collective::barrier && (count > 0 || in_place)) continue;
        const int root = hasRoot(collective) ? ranks - 1 : 0;
        cases.push_back(
            {collective, count, DataType::int32, ReduceOp::sum, root, in_place, count % 2 == 1});
      }
  }
  return cases;
}

} // namespace rondo::test
