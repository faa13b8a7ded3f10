// Options of `rondo bench`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/types.h"
#include "tools/gpu.h"

namespace rondo::tools {

/// How the times of the ranks are combined (-a).
enum class Combine : std::uint8_t { rank0, average, min, max };

/// Which statistic of a rank's calls the table shows (--time). JSON contains all of them.
enum class Statistic : std::uint8_t { mean, median };

struct BenchConfig {
  Collective collective = Collective::allreduce;
  std::size_t min_bytes = 8, max_bytes = std::size_t{16} << 20;
  std::size_t step_bytes = 0; ///< not 0: sizes grow by this many bytes, and `factor` is not used
  std::size_t factor = 2;
  int iterations = 0; ///< 0: depends on how long a call takes, see measure.cc
  int warmup = -1;    ///< calls before the timed ones; -1: see warmUpCalls() and warmsUpByTime()
  int aggregate = 1;  ///< calls of one group
  int check = 1;      ///< checked calls per row; 0: none
  int root = 0;       ///< -1: every rank in turn
  Combine combine = Combine::average;
  Statistic statistic = Statistic::mean;
  bool blocking = true;
  std::vector<DataType> types = {DataType::float32};
  std::vector<ReduceOp> ops = {ReduceOp::sum};

  int ranks = 2;
  bool launched = false;     ///< this process is one of the ranks already
  bool threads = false;      ///< ranks are threads of this process
  std::string bind = "core"; ///< as Options::bind
  bool deterministic = false;
  bool mapped = false; ///< buffers are from Communicator::allocate()
  /// Rank r of a machine has its buffers on GPU r / ranks_per_gpu; 0: they are in host memory.
  int ranks_per_gpu = 0;
  int replays = 0; ///< of a graph of calls; 0: calls are made one by one
  GpuOpener open_gpu = openGpu;
  std::string transport; ///< empty: the communicator's choice
  /// One table for each; an empty text: the communicator's choice.
  std::vector<std::string> algorithms = {""};
  std::string left_out;               ///< of all algorithms: those that deterministic mode forbids
  std::string json;                   ///< file to write; empty: none
  std::string rules;                  ///< rules file to write; empty: none
  std::vector<std::string> arguments; ///< as given, for the JSON file

  bool onGpu() const { return ranks_per_gpu > 0; }
  int warmUpCalls() const { return warmup < 0 ? 1 : warmup; }
  /// Whether small calls are warmed up for some time after the first one, see measure.h.
  bool warmsUpByTime() const { return warmup < 0 && iterations == 0 && !onGpu(); }
};

} // namespace rondo::tools
