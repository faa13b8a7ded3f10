// Sizes of the benchmark: rows of a table, elements per rank, and the factor of busbw.
#include "tools/bench/shape.h"

#include <algorithm>
#include <limits>

namespace rondo::tools {

std::size_t blocksOfSize(Collective collective, int ranks) {
  return traits(collective).blocksOfSize(ranks);
}

std::vector<std::size_t> elementCounts(const BenchConfig& config, DataType type, int ranks) {
  if (config.collective == Collective::barrier) return {0};
  const std::size_t unit = sizeOf(type) * blocksOfSize(config.collective, ranks);
  std::vector<std::size_t> counts;
  std::size_t bytes = config.min_bytes;
  if (bytes == 0) {
    counts.push_back(0);
    bytes = unit;
  }
  while (bytes <= config.max_bytes || counts.empty()) {
    const std::size_t count = std::max<std::size_t>(bytes / unit, 1);
    if (counts.empty() || count > counts.back()) counts.push_back(count);
    const std::size_t limit = std::numeric_limits<std::size_t>::max();
    if (config.step_bytes != 0) {
      if (bytes > limit - config.step_bytes) break;
      bytes += config.step_bytes;
    } else {
      if (config.factor < 2 || bytes > limit / config.factor) break;
      bytes *= config.factor;
    }
  }
  return counts;
}

std::optional<double> busFactor(Collective collective, int ranks) {
  if (ranks == 1) return std::nullopt;
  const double n = ranks;
  if (collective == Collective::allreduce) return 2 * (n - 1) / n;
  return traits(collective).perRank() ? (n - 1) / n : 1.0;
}

} // namespace rondo::tools
