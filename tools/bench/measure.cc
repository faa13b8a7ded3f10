// Measures and checks one row of the benchmark, as one rank.
#include "tools/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include "tools/bench/shape.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTogetherMicroseconds = 20'000; ///< all calls of a row below kClockEachFrom
constexpr double kAloneMicroseconds = 1'000'000; ///< all calls of a row from kClockEachFrom on
constexpr int kMostTogether = 5000, kMostAlone = 20, kFewestTogether = 20, kFewestAlone = 3;
constexpr int kSamples = 100; ///< wanted number of samples of calls that are timed together
constexpr int kFewestCallsPerSample = 10;
/// Calls below kClockEachFrom are warmed up for so long: the first some hundred allocate memory.
constexpr double kWarmUpMicroseconds = 10'000;
constexpr std::size_t kInFlight = 64; ///< calls with -z 0
constexpr int kPerGraph = 20;         ///< calls with -G
constexpr int kUnwritten = 0xee;      ///< fills outputs before a checked call

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

/// A number that is equal for processes of one running machine, and exact as a double.
double machineNumber() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return static_cast<double>(std::hash<std::string>()(id) >> 12);
}

/// Calls that follow each other, by the rules of -m and -z.
class Series {
 public:
  Series(const BenchConfig& config, const Call& call) : config_(config), call_(call) {}

  /// With -z 0 some calls may not be done on return.
  void add(int calls) {
    for (int i = 0; i < calls; ++i) config_.blocking ? run() : start();
  }
  /// Waits until all calls are done.
  void finish() {
    for (Work& work : flying_) work.wait();
    flying_.clear();
  }

 private:
  void run() const { config_.aggregate > 1 ? call_.runGroup(config_.aggregate) : call_.run(); }
  void start() {
    const auto aggregate = static_cast<std::size_t>(config_.aggregate);
    if (flying_.size() == std::max<std::size_t>(kInFlight / aggregate, 1)) {
      flying_.front().wait();
      flying_.pop_front();
    }
    flying_.push_back(config_.aggregate > 1 ? call_.startGroup(config_.aggregate) : call_.start());
  }

  const BenchConfig& config_;
  const Call& call_;
  std::deque<Work> flying_;
};

/// Makes `calls` calls and waits until all are done.
void repeat(const BenchConfig& config, const Call& call, int calls) {
  Series series(config, call);
  series.add(calls);
  series.finish();
}

} // namespace

Measurement::Measurement(const BenchConfig& config, Communicator& control, Communicator& comm,
                         std::shared_ptr<Gpu> gpu)
    : config_(config), control_(control), comm_(comm), gpu_(std::move(gpu)) {
  std::size_t most = 0;
  for (const DataType type : config.types) {
    const std::size_t blocks = blocksOfSize(config.collective, comm.size());
    const auto counts = elementCounts(config, type, comm.size());
    most = std::max(most, counts.back() * blocks * sizeOf(type));
  }
  for (GuardedBuffer* buffer : {&first_, &second_})
    *buffer = gpu_            ? GuardedBuffer(most, gpu_)
              : config.mapped ? GuardedBuffer(most, comm)
                              : GuardedBuffer(most);
}

Row Measurement::measure(const Pattern& pattern, DataType type, ReduceOp op, int root,
                         std::size_t count) {
  Row row;
  row.count = count;
  row.bytes = count * sizeOf(type) * blocksOfSize(config_.collective, comm_.size());
  row.type = type;
  if (reduces(config_.collective)) row.op = op;
  if (hasRoot(config_.collective)) row.root = root;
  const Call shape{&comm_, config_.collective, nullptr, nullptr, count, type, op, root};
  row.out_of_place = timePlacement(place(shape, false), pattern);
  if (traits(config_.collective).in_place)
    row.in_place = timePlacement(place(shape, true), pattern);
  // Behind the calls: the first of them may have measured which algorithm is used.
  row.algorithm = comm_.algorithmFor(config_.collective, count, type);
  return row;
}

std::size_t Measurement::outOfBounds() {
  const auto damaged = fromAllRanks(static_cast<double>(damaged_));
  return static_cast<std::size_t>(std::accumulate(damaged.begin(), damaged.end(), 0.0));
}

Measurement::Placement Measurement::place(const Call& shape, bool in_place) {
  const int ranks = comm_.size(), rank = comm_.rank();
  Placement at;
  at.call = at.host = shape;
  at.in_place = in_place;
  at.input_elements = traits(shape.collective).input.count(ranks, rank, shape.root) * shape.count;
  at.output_elements = traits(shape.collective).output.count(ranks, rank, shape.root) * shape.count;
  const std::size_t input_bytes = at.input_elements * sizeOf(shape.type);
  const std::size_t output_bytes = at.output_elements * sizeOf(shape.type);
  at.first_used = in_place ? std::max(input_bytes, output_bytes) : input_bytes;
  at.second_used = in_place ? 0 : output_bytes;
  // In place, the smaller buffer is this rank's own block of the larger one.
  const std::size_t own = static_cast<std::size_t>(rank) * shape.count * sizeOf(shape.type);
  const bool both = in_place && input_bytes != 0 && output_bytes != 0;
  const std::size_t input_at = both && input_bytes < output_bytes ? own : 0;
  const std::size_t output_at = both && input_bytes > output_bytes ? own : 0;
  const GuardedBuffer& output = in_place ? first_ : second_;
  // A buffer that this rank does not need is null, as the interface allows.
  if (input_bytes != 0) {
    at.call.input = first_.address() + input_at;
    at.host.input = at.input = first_.data() + input_at;
  }
  if (output_bytes != 0) {
    at.call.output = output.address() + output_at;
    at.host.output = output.data() + output_at;
  }
  return at;
}

Timing Measurement::timePlacement(const Placement& placement, const Pattern& pattern) {
  const Call& call = placement.call;
  const std::size_t bytes =
      call.count * sizeOf(call.type) * blocksOfSize(call.collective, comm_.size());
  const bool large = bytes >= kClockEachFrom;
  const bool alone = config_.blocking && large && !gpu_;

  warmUp(placement, pattern, bytes);
  Timing timing;
  const int iterations = chooseIterations(placement, bytes);
  timing.calls_per_sample =
      large ? 1 : std::min(iterations, std::max(kFewestCallsPerSample, iterations / kSamples));
  if (config_.replays > 0) timing.calls_per_sample = iterations;
  // All calls are one sample, since the pipeline would drain between samples.
  if (!config_.blocking && !gpu_) timing.calls_per_sample = iterations;
  const std::vector<double> samples =
      gpu_    ? timedOnGpu(placement, pattern, iterations, timing.calls_per_sample)
      : alone ? timedAlone(placement, pattern, iterations)
              : timedTogether(placement, pattern, iterations, timing.calls_per_sample);
  timing.calls_per_sample *= config_.aggregate;
  timing.calls = static_cast<int>(samples.size()) * timing.calls_per_sample;

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
  if (placement.input_elements != 0)
    pattern.fill(placement.input, comm_.rank(), 0, placement.input_elements);
}

void Measurement::upload(const Placement& placement) const {
  first_.upload(placement.first_used);
  second_.upload(placement.second_used);
}

void Measurement::warmUp(const Placement& placement, const Pattern& pattern,
                         std::size_t bytes) const {
  writeInput(placement, pattern);
  upload(placement);
  control_.barrier();
  int calls = config_.warmUpCalls();
  if (config_.replays > 0) calls = std::max(calls, 1); // channels cannot be opened in a capture
  repeat(config_, placement.call, calls);
  if (!config_.warmsUpByTime() || config_.replays > 0 || bytes >= kClockEachFrom) return;
  for (double spent = 0; spent < kWarmUpMicroseconds; calls *= 2)
    spent += calls * slowestOf(placement.call, calls);
}

/// Time of a call in microseconds, on the slowest rank.
double Measurement::slowestOf(const Call& call, int calls) const {
  control_.barrier();
  const auto start = Clock::now();
  repeat(config_, call, calls);
  const auto times = fromAllRanks(microseconds(start, Clock::now()) / calls);
  return std::max(*std::max_element(times.begin(), times.end()), 1e-3);
}

int Measurement::chooseIterations(const Placement& placement, std::size_t bytes) const {
  if (config_.iterations > 0) return config_.iterations;
  if (config_.replays > 0) return kPerGraph;
  constexpr int kProbes = 3;
  const double one = slowestOf(placement.call, kProbes);
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

std::vector<double> Measurement::timedOnGpu(const Placement& placement, const Pattern& pattern,
                                            int iterations, int calls_per_sample) const {
  writeInput(placement, pattern);
  upload(placement);
  Series series(config_, placement.call);
  int count = std::max(iterations / calls_per_sample, 1);
  if (config_.replays > 0) {
    count = config_.replays;
    // Making a graph may wait for the GPU, so no other rank may still need this one.
    control_.barrier();
    gpu_->beginGraph();
    series.add(calls_per_sample);
    gpu_->endGraph();
  }
  control_.barrier();
  gpu_->mark();
  for (int i = 0; i < count; ++i) {
    config_.replays > 0 ? gpu_->replay() : series.add(calls_per_sample);
    gpu_->mark();
  }
  series.finish();
  std::vector<double> samples = gpu_->times();
  for (double& sample : samples)
    sample /= static_cast<double>(calls_per_sample) * config_.aggregate;
  // An error of a replay is thrown by the next call.
  if (config_.replays > 0) repeat(config_, placement.call, 1);
  return samples;
}

std::size_t Measurement::check(const Placement& placement, const Pattern& pattern) {
  const Call& host = placement.host;
  if (host.collective == Collective::barrier) return checkBarrier();
  first_.guard(placement.first_used);
  second_.guard(placement.second_used);
  if (host.output != nullptr)
    std::memset(host.output, kUnwritten, placement.output_elements * sizeOf(host.type));
  writeInput(placement, pattern);
  upload(placement);
  placement.call.run();
  first_.download(placement.first_used);
  second_.download(placement.second_used);
  damaged_ += first_.damaged(placement.first_used) + second_.damaged(placement.second_used);
  std::size_t wrong = host.wrongElements(pattern);
  if (!placement.in_place && placement.input_elements != 0) {
    // The library must not write to an input that is not an output.
    wrong += pattern.differsFromInput(host.input, comm_.rank(), 0, placement.input_elements);
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
