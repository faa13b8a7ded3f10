// Measures links between two threads, and the speed of memory and kernels.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tools/tune_fit.h"
#include "topology/machine.h"

namespace rondo::tools {

/// The processors of the two ranks of a MeasuredPair: those that RONDO_BIND=core gives to two
/// ranks.
std::vector<topology::Processors> placesOfPair(const topology::Machine& machine,
                                               const topology::Processors& allowed);

/// "processor" or "core", if the two ranks share it; otherwise empty.
std::string sharedBy(const std::vector<topology::Processors>& places);

/// Two ranks, as threads of this process.
class MeasuredPair {
 public:
  /// `transport`: the only one that the ranks may use. Throws Error if it cannot be used here.
  explicit MeasuredPair(const std::string& transport);
  ~MeasuredPair();

  /// Half a round trip, and a stream's time per message; the fastest of several repetitions, which
  /// take about `time` together.
  LinkSample sample(std::size_t bytes, std::chrono::duration<double> time);
  /// Seconds of a message of a stream whose buffers, on both ranks, take turns in memory of
  /// `working_set` bytes.
  double streamed(std::size_t bytes, std::size_t working_set, std::chrono::duration<double> time);
  /// Seconds of an AllReduce of `bytes` with this algorithm.
  double allReduce(const std::string& algorithm, std::size_t bytes,
                   std::chrono::duration<double> time);

 private:
  struct Ranks;
  Ranks& withAlgorithm(const std::string& algorithm);

  std::string transport_;
  std::unique_ptr<Ranks> ranks_;
};

/// Seconds per byte of an operand: copied; combined with another one of elements of this size (1,
/// 2, 4 or 8 bytes) by the kernels for sums.
double copySpeed(std::size_t working_set, std::chrono::duration<double> time);
double reduceSpeed(std::size_t element_bytes, std::size_t working_set,
                   std::chrono::duration<double> time);

/// Seconds of a turn, if two threads share a processor and both yield it all the time, as ranks do
/// that wait.
double turnTime();

} // namespace rondo::tools
