// Sizes of the benchmark: rows of a table, elements per rank, and the factor of busbw.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/bench/config.h"

namespace rondo::tools {

/// Number of blocks that the size column counts.
std::size_t blocksOfSize(Collective collective, int ranks);

/// Element counts ("count" of the call) of a table's rows, ascending, without duplicates. A size is
/// rounded down to whole elements of every rank, but not below one element. The count 0 comes only
/// from -b 0, and is followed by one element. A barrier has one row, with count 0.
std::vector<std::size_t> elementCounts(const BenchConfig& config, DataType type, int ranks);

/// busbw / algbw: the share of the algorithm's bandwidth that the busiest link carries. Nothing for
/// one rank, which sends nothing.
std::optional<double> busFactor(Collective collective, int ranks);

} // namespace rondo::tools
