// Measures and checks one row of the benchmark, as one rank.
#include "tools/bench_measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include "tools/bench_shape.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTogetherMicroseconds = 20'000; ///< of all calls of a row below kClockEachFrom
constexpr double kAloneMicroseconds = 1'000'000; ///< from there on
constexpr int kMostTogether = 5000, kMostAlone = 20, kFewestTogether = 20, kFewestAlone = 3;
constexpr int kSamples = 100; ///< wanted of calls clocked together
constexpr int kFewestCallsPerSample = 10;
constexpr std::size_t kInFlight = 64; ///< calls with -z 0
constexpr int kUnwritten = 0xee;      ///< outputs before a checked call

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

/// Equal for processes of one running machine; exact as a double.
double machineNumber() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return static_cast<double>(std::hash<std::string>()(id) >> 12);
}

/// `calls` in a row, as -m and -z say; returns when all are done.
void repeat(const BenchConfig& config, const Call& call, int calls) {
  if (config.blocking) {
    if (config.aggregate > 1) {
      for (int i = 0; i < calls; ++i) call.runGroup(config.aggregate);
    } else {
      for (int i = 0; i < calls; ++i) call.run();
    }
    return;
  }
  std::deque<Work> flying;
  for (int i = 0; i < calls; ++i) {
    if (flying.size() == kInFlight) {
      flying.front().wait();
      flying.pop_front();
    }
    flying.push_back(config.aggregate > 1 ? call.startGroup(config.aggregate) : call.start());
  }
  for (Work& work : flying) work.wait();
}

} // namespace

Measurement::Measurement(const BenchConfig& config, Communicator& control, Communicator& comm)
    : config_(config), control_(control), comm_(comm) {
  std::size_t most = 0;
  for (const DataType type : config.types) {
    const std::size_t blocks = blocksOfSize(config.collective, comm.size());
    const auto counts = elementCounts(config, type, comm.size());
    most = std::max(most, counts.back() * blocks * sizeOf(type));
  }
  for (GuardedBuffer* buffer : {&first_, &second_})
    *buffer = config.mapped ? GuardedBuffer(most, comm) : GuardedBuffer(most);
}

Row Measurement::measure(const Pattern& pattern, DataType type, ReduceOp op, int root,
                         std::size_t count) {
  Row row;
  row.count = count;
  row.bytes = count * sizeOf(type) * blocksOfSize(config_.collective, comm_.size());
  row.type = type;
  if (reduces(config_.collective)) row.op = op;
  if (hasRoot(config_.collective)) row.root = root;
  row.algorithm = comm_.algorithmFor(config_.collective, count, type);
  const Call shape{&comm_, config_.collective, nullptr, nullptr, count, type, op, root};
  row.out_of_place = timePlacement(place(shape, false), pattern);
  if (hasInPlace(config_.collective)) row.in_place = timePlacement(place(shape, true), pattern);
  return row;
}

std::size_t Measurement::outOfBounds() {
  const auto damaged = fromAllRanks(static_cast<double>(damaged_));
  return static_cast<std::size_t>(std::accumulate(damaged.begin(), damaged.end(), 0.0));
}

Measurement::Placement Measurement::place(const Call& shape, bool in_place) {
  const int ranks = comm_.size(), rank = comm_.rank();
  Placement at{shape, nullptr, 0, 0, in_place};
  at.input_elements = inputBlocks(shape.collective, ranks, rank, shape.root) * shape.count;
  at.output_elements = outputBlocks(shape.collective, ranks, rank, shape.root) * shape.count;
  std::byte* input = first_.data();
  std::byte* output = in_place ? first_.data() : second_.data();
  if (in_place && at.input_elements != 0 && at.output_elements != 0) {
    // The smaller one is this rank's own block of the larger one.
    const std::size_t own = static_cast<std::size_t>(rank) * shape.count * sizeOf(shape.type);
    if (at.input_elements > at.output_elements) output += own;
    if (at.input_elements < at.output_elements) input += own;
  }
  // What a rank does not have is null, as the interface allows.
  at.input = at.input_elements != 0 ? input : nullptr;
  at.call.input = at.input;
  at.call.output = at.output_elements != 0 ? output : nullptr;
  return at;
}

Timing Measurement::timePlacement(const Placement& placement, const Pattern& pattern) {
  const Call& call = placement.call;
  const std::size_t bytes =
      call.count * sizeOf(call.type) * blocksOfSize(call.collective, comm_.size());
  const bool alone = config_.blocking && bytes >= kClockEachFrom;

  warmUp(placement, pattern);
  Timing timing;
  const int iterations = chooseIterations(placement, bytes);
  timing.calls_per_sample =
      alone ? 1 : std::min(iterations, std::max(kFewestCallsPerSample, iterations / kSamples));
  if (!config_.blocking) timing.calls_per_sample = iterations; // else the pipeline would drain
  const std::vector<double> samples =
      alone ? timedAlone(placement, pattern, iterations)
            : timedTogether(placement, pattern, iterations, timing.calls_per_sample);
  timing.calls = iterations * config_.aggregate;
  timing.calls_per_sample *= config_.aggregate;

  const Times own = summarize(samples);
  timing.times = {combine(own.mean), combine(own.min), combine(own.p50),
                  combine(own.p95),  combine(own.p99), combine(own.max)};
  timing.time = config_.statistic == Statistic::median ? timing.times.p50 : timing.times.mean;
  timing.alg_bw = static_cast<double>(bytes) / timing.time / 1e3;
  if (const auto factor = busFactor(call.collective, comm_.size())) {
    timing.bus_bw = timing.alg_bw * *factor;
  }
  if (config_.check > 0) {
    std::size_t wrong = 0;
    for (int i = 0; i < config_.check; ++i) wrong += check(placement, pattern);
    const auto all = fromAllRanks(static_cast<double>(wrong));
    timing.wrong = static_cast<std::size_t>(std::accumulate(all.begin(), all.end(), 0.0));
  }
  return timing;
}

void Measurement::writeInput(const Placement& placement, const Pattern& pattern) const {
  if (placement.input_elements == 0) return;
  pattern.fill(placement.input, comm_.rank(), 0, placement.input_elements);
}

void Measurement::warmUp(const Placement& placement, const Pattern& pattern) const {
  writeInput(placement, pattern);
  control_.barrier();
  repeat(config_, placement.call, config_.warmup < 0 ? 1 : config_.warmup);
}

int Measurement::chooseIterations(const Placement& placement, std::size_t bytes) const {
  if (config_.iterations > 0) return config_.iterations;
  constexpr int kProbes = 3;
  control_.barrier();
  const auto start = Clock::now();
  repeat(config_, placement.call, kProbes);
  const auto times = fromAllRanks(microseconds(start, Clock::now()) / kProbes);
  const double one = std::max(*std::max_element(times.begin(), times.end()), 1e-3);
  const bool small = bytes < kClockEachFrom;
  const double wanted = (small ? kTogetherMicroseconds : kAloneMicroseconds) / one;
  return static_cast<int>(std::clamp<double>(wanted, small ? kFewestTogether : kFewestAlone,
                                             small ? kMostTogether : kMostAlone));
}

std::vector<double> Measurement::timedTogether(const Placement& placement, const Pattern& pattern,
                                               int iterations, int calls_per_sample) const {
  writeInput(placement, pattern);
  const int count = std::max(iterations / calls_per_sample, 1);
  std::vector<double> samples(static_cast<std::size_t>(count));
  const double calls = static_cast<double>(calls_per_sample) * config_.aggregate;
  control_.barrier();
  auto start = Clock::now();
  for (double& sample : samples) {
    repeat(config_, placement.call, calls_per_sample);
    const auto end = Clock::now();
    sample = microseconds(start, end) / calls;
    start = end;
  }
  return samples;
}

std::vector<double> Measurement::timedAlone(const Placement& placement, const Pattern& pattern,
                                            int iterations) const {
  std::vector<double> samples(static_cast<std::size_t>(iterations));
  for (double& sample : samples) {
    writeInput(placement, pattern);
    control_.barrier();
    const auto start = Clock::now();
    repeat(config_, placement.call, 1);
    sample = microseconds(start, Clock::now()) / config_.aggregate;
  }
  return samples;
}

std::size_t Measurement::check(const Placement& placement, const Pattern& pattern) {
  const Call& call = placement.call;
  if (call.collective == Collective::barrier) return checkBarrier();
  const std::size_t size = sizeOf(call.type);
  const std::size_t input_bytes = placement.input_elements * size;
  const std::size_t output_bytes = placement.output_elements * size;
  const std::size_t first_used =
      placement.in_place ? std::max(input_bytes, output_bytes) : input_bytes;
  const std::size_t second_used = placement.in_place ? 0 : output_bytes;
  first_.guard(first_used);
  second_.guard(second_used);
  if (call.output != nullptr) std::memset(call.output, kUnwritten, output_bytes);
  writeInput(placement, pattern);
  call.run();
  countDamage(first_used, second_used);
  std::size_t wrong = call.wrongElements(pattern);
  if (!placement.in_place && placement.input_elements != 0) {
    // Nobody may write to an input that is not an output.
    wrong += pattern.differsFromInput(call.input, comm_.rank(), 0, placement.input_elements);
  }
  return wrong;
}

std::size_t Measurement::checkBarrier() const {
  // Ranks of different machines have no common clock.
  const std::vector<double> machines = fromAllRanks(machineNumber());
  if (std::adjacent_find(machines.begin(), machines.end(), std::not_equal_to<>()) !=
      machines.end()) {
    return 0;
  }
  const auto now = [] { return microseconds({}, Clock::now()); };
  std::size_t wrong = 0;
  for (int late = 0; late < comm_.size(); ++late) {
    control_.barrier();
    if (comm_.rank() == late) std::this_thread::sleep_for(std::chrono::microseconds(500));
    const double entered = now();
    comm_.barrier();
    const double left = now();
    const std::vector<double> all = fromAllRanks(entered);
    if (left < *std::max_element(all.begin(), all.end())) ++wrong;
  }
  return wrong;
}

void Measurement::countDamage(std::size_t first_used, std::size_t second_used) {
  damaged_ += first_.damaged(first_used) + second_.damaged(second_used);
}

std::size_t Measurement::memory() const {
  const std::vector<double> all = fromAllRanks(static_cast<double>(comm_.memory().bytes()));
  return static_cast<std::size_t>(*std::max_element(all.begin(), all.end()));
}

std::vector<double> Measurement::fromAllRanks(double value) const {
  std::vector<double> all(static_cast<std::size_t>(control_.size()));
  control_.allGather(&value, all.data(), 1, DataType::float64);
  return all;
}

double Measurement::combine(double value) const {
  const std::vector<double> all = fromAllRanks(value);
  switch (config_.combine) {
    case Combine::rank0: return all[0];
    case Combine::min: return *std::min_element(all.begin(), all.end());
    case Combine::max: return *std::max_element(all.begin(), all.end());
    case Combine::average: break;
  }
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

} // namespace rondo::tools
