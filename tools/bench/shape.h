// Sizes of a benchmark: which rows a table has, who holds how many elements, what busbw means.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/bench/config.h"

namespace rondo::tools {

/// Blocks that the size column counts: the whole array (size() blocks) for those that cut it into
/// one block per rank, 1 for the others. nccl-tests counts alike.
std::size_t blocksOfSize(Collective collective, int ranks);

/// Element counts ("count" of the call) of a table's rows, ascending, each once. A size is rounded
/// down to whole elements of every rank, up to one element; the count 0 comes only from -b 0, and
/// is followed by one element. A barrier has one row, of count 0.
std::vector<std::size_t> elementCounts(const BenchConfig& config, DataType type, int ranks);

/// busbw / algbw: how much of the algorithm's bandwidth the busiest wire carries. None with one
/// rank, where nothing is carried.
std::optional<double> busFactor(Collective collective, int ranks);

} // namespace rondo::tools
