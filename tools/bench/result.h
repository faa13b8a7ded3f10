// What the benchmark measured, as the table and the JSON file show it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

/// Microseconds per call. Percentiles are over samples; see Timing::calls_per_sample.
struct Times {
  double mean = 0, min = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
};

/// One placement (out of place or in place) of one row, all ranks together.
struct Timing {
  Times times;                      ///< of the ranks, combined as -a says
  double time = 0;                  ///< microseconds, what the table shows
  double alg_bw = 0;                ///< GB/s
  std::optional<double> bus_bw;     ///< GB/s; none with one rank
  std::optional<std::size_t> wrong; ///< elements, all ranks; none when nothing was checked
  int calls = 0;
  int calls_per_sample = 0; ///< more than one: a sample is their average, clocked once around them
};

struct Row {
  std::size_t bytes = 0, count = 0;
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;
  int root = -1;         ///< -1: the collective has none
  std::string algorithm; ///< what the communicator uses for this call
  std::optional<Timing> out_of_place, in_place;
};

/// All rows of one algorithm.
struct TableResult {
  std::string algorithm; ///< as asked for; empty: the communicator's choice
  std::vector<Row> rows;
  std::size_t out_of_bounds = 0; ///< bytes around the buffers that changed, all ranks
  std::size_t memory = 0; ///< bytes that the measured communicator holds, on the rank with most

  /// GB/s over all placements of all rows with a busbw; none if there are none.
  std::optional<double> averageBusBandwidth() const;
  std::size_t wrong() const;
  bool good() const { return out_of_bounds == 0 && wrong() == 0; }
};

/// Of one rank's samples (at least one). Percentiles by nearest rank.
Times summarize(std::vector<double> samples);

} // namespace rondo::tools
