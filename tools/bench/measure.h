// Measures and checks one row of the benchmark, as one rank.
//
// What is timed. Ranks meet in a barrier of a second communicator before the clock starts. Below 64
// KiB (and always with -z 0) the clock is read around several calls, which follow each other
// without a pause, on inputs written before the first one; a sample is their average. From 64 KiB
// on every call is timed by itself: before each one its input is written (so the caches contain
// what a program's would) and the ranks meet again. Checked calls come after the timed ones and are
// not timed.
//
// On GPUs calls follow each other on a stream, on inputs written before the first one. A sample is
// the time, by the GPU's clock, between events around one call (several below 64 KiB), or around
// the replay of a graph of calls.
//
// Without -n: below 64 KiB as many calls as fit in about 20 ms, 20 to 5000 of them; from 64 KiB on
// 20, or, if they take longer than a second, fewer, but at least 3. Without -n and -w, calls below
// 64 KiB on CPUs follow a warm-up of about 10 ms, because the first hundreds of calls allocate
// memory that later ones use again. Otherwise one call comes before them, or as many as -w says.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "rondo/communicator.h"
#include "tools/bench/buffer.h"
#include "tools/bench/call.h"
#include "tools/bench/config.h"
#include "tools/bench/data.h"
#include "tools/bench/result.h"

namespace rondo::tools {

class Measurement {
 public:
  static constexpr std::size_t kClockEachFrom = 64 << 10; ///< bytes

  /// `control` carries the benchmark's own data, `comm` is measured; both have the same ranks.
  /// `gpu` owns the buffers and the stream of `comm`; null: buffers are in host memory.
  Measurement(const BenchConfig& config, Communicator& control, Communicator& comm,
              std::shared_ptr<Gpu> gpu);

  /// Collective: all ranks measure the same row, and get the same result. `root` is used if the
  /// collective has one.
  Row measure(const Pattern& pattern, DataType type, ReduceOp op, int root, std::size_t count);

  /// Collective. Bytes that the measured communicator holds, on the rank with the most.
  std::size_t memory() const;
  /// Collective. Number of bytes around the buffers that have changed so far, on all ranks.
  std::size_t outOfBounds();

 private:
  /// Input and output of a call, in place or not.
  struct Placement {
    Call call;
    Call host;                  ///< the same call with the buffers in host memory
    std::byte* input = nullptr; ///< host.input, writable
    std::size_t input_elements = 0, output_elements = 0;
    std::size_t first_used = 0, second_used = 0; ///< bytes of the buffers
    bool in_place = false;
  };
  Placement place(const Call& shape, bool in_place);
  Timing timePlacement(const Placement& placement, const Pattern& pattern);

  void writeInput(const Placement& placement, const Pattern& pattern) const;
  void warmUp(const Placement& placement, const Pattern& pattern, std::size_t bytes) const;
  double slowestOf(const Call& call, int calls) const;
  int chooseIterations(const Placement& placement, std::size_t bytes) const;
  std::vector<double> timedTogether(const Placement& placement, const Pattern& pattern,
                                    int iterations, int calls_per_sample) const;
  std::vector<double> timedAlone(const Placement& placement, const Pattern& pattern,
                                 int iterations) const;
  std::vector<double> timedOnGpu(const Placement& placement, const Pattern& pattern, int iterations,
                                 int calls_per_sample) const;
  void upload(const Placement& placement) const;
  std::size_t check(const Placement& placement, const Pattern& pattern);
  std::size_t checkBarrier() const;
  /// Element r is rank r's.
  std::vector<double> fromAllRanks(double value) const;
  double combine(double value) const;

  const BenchConfig& config_;
  Communicator& control_;
  Communicator& comm_;
  const std::shared_ptr<Gpu> gpu_;
  GuardedBuffer first_, second_; ///< input and output out of place
  std::size_t damaged_ = 0;
};

} // namespace rondo::tools
