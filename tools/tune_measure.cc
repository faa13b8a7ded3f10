// Each repetition is one exchange of both threads; the fastest counts, because other work on the
// machine only adds time.
#include "tools/tune_measure.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "kernels/reduce.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "tools/threads.h"
#include "topology/bind.h"
#include "topology/system.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Calls `work` for both ranks at the same time, each on its processors.
void onBoth(const std::vector<topology::Processors>& places, const std::function<void(int)>& work) {
  onThreads(2, [&](int rank) {
    topology::bindThread(places[static_cast<std::size_t>(rank)]);
    work(rank);
  });
}

/// Repeats `once` about as often as the time allows, at least three times. Returns the seconds of
/// the fastest.
double fastest(std::chrono::duration<double> time, const std::function<void()>& once) {
  double best = 1e300;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || secondsSince(begin) < time.count(); ++i) {
    const auto start = Clock::now();
    once();
    best = std::min(best, secondsSince(start));
  }
  return best;
}

/// Messages per repetition: enough that reading the clock costs nothing beside them.
int messagesFor(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 20) / (bytes + 1), 4, 200));
}

DataType typeOf(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return DataType::int8;
    case 2: return DataType::float16;
    case 4: return DataType::float32;
    default: return DataType::float64;
  }
}

} // namespace

std::vector<topology::Processors> placesOfPair(const topology::Machine& machine,
                                               const topology::Processors& allowed) {
  return topology::bindings(machine, {topology::BindRule::To::core}, allowed, 2);
}

std::string sharedBy(const std::vector<topology::Processors>& places) {
  if (places[0] != places[1]) return "";
  return places[0].size() == 1 ? "processor" : "core";
}

struct MeasuredPair::Ranks {
  std::string algorithm;
  std::vector<Communicator> comms;
  std::vector<topology::Processors> places;

  /// Runs `repetition(rank, start)` on both ranks as often as rank 0 decides. Returns the seconds
  /// of the fastest, as rank 0 sees it.
  double repeat(std::chrono::duration<double> time,
                const std::function<void(Communicator&)>& repetition) {
    double best = 1e300;
    onBoth(places, [&](int rank) {
      Communicator& comm = comms[static_cast<std::size_t>(rank)];
      const auto begin = Clock::now();
      repetition(comm); // connects, and fills the caches
      for (std::int32_t go = 1, round = 0; go != 0; ++round) {
        go = round < 3 || secondsSince(begin) < time.count();
        comm.broadcast(&go, &go, 1, DataType::int32, 0);
        const auto start = Clock::now();
        if (go != 0) repetition(comm);
        if (go != 0 && rank == 0) best = std::min(best, secondsSince(start));
      }
    });
    return best;
  }
};

MeasuredPair::MeasuredPair(const std::string& transport) : transport_(transport) {
  withAlgorithm("");
}
MeasuredPair::~MeasuredPair() = default;

MeasuredPair::Ranks& MeasuredPair::withAlgorithm(const std::string& algorithm) {
  if (ranks_ && ranks_->algorithm == algorithm) return *ranks_;
  Options options;
  options.transports = transport_;
  options.algorithm = algorithm;
  const topology::Processors own = topology::ownProcessors();
  ranks_ = std::make_unique<Ranks>(Ranks{algorithm, Communicator::createAll(2, options),
                                         placesOfPair(topology::systemMachine(own), own)});
  return *ranks_;
}

LinkSample MeasuredPair::sample(std::size_t bytes, std::chrono::duration<double> time) {
  Ranks& ranks = withAlgorithm("");
  const int messages = messagesFor(bytes);
  std::vector<char> buffers[2] = {std::vector<char>(bytes, 1), std::vector<char>(bytes, 2)};
  const auto turn = [&](Communicator& comm, bool sends) {
    char* const data = buffers[comm.rank()].data();
    const int peer = 1 - comm.rank();
    if (sends) comm.send(data, bytes, DataType::uint8, peer);
    else comm.recv(data, bytes, DataType::uint8, peer);
  };
  LinkSample sample{.bytes = static_cast<double>(bytes)};
  sample.half_trip = ranks.repeat(time / 2, [&](Communicator& comm) {
    for (int i = 0; i < 2 * messages; ++i) turn(comm, i % 2 == comm.rank());
  }) / (2 * messages);
  sample.stream = ranks.repeat(time / 2, [&](Communicator& comm) {
    for (int i = 0; i < messages; ++i) turn(comm, comm.rank() == 0);
    char done = 0; // rank 0 waits until all have been received
    if (comm.rank() == 1) comm.send(&done, 1, DataType::uint8, 0);
    else comm.recv(&done, 1, DataType::uint8, 1);
  }) / messages;
  return sample;
}

double MeasuredPair::streamed(std::size_t bytes, std::size_t working_set,
                              std::chrono::duration<double> time) {
  const std::size_t messages = std::max<std::size_t>(working_set / bytes, 8);
  const std::size_t places = std::max<std::size_t>(working_set / bytes, 1);
  std::vector<char> buffers[2] = {std::vector<char>(places * bytes, 1),
                                  std::vector<char>(places * bytes, 2)};
  return withAlgorithm("").repeat(time, [&](Communicator& comm) {
    char* const data = buffers[comm.rank()].data();
    for (std::size_t i = 0; i < messages; ++i) {
      char* const at = data + i % places * bytes;
      if (comm.rank() == 0) comm.send(at, bytes, DataType::uint8, 1);
      else comm.recv(at, bytes, DataType::uint8, 0);
    }
    char done = 0;
    if (comm.rank() == 1) comm.send(&done, 1, DataType::uint8, 0);
    else comm.recv(&done, 1, DataType::uint8, 1);
  }) / static_cast<double>(messages);
}

double MeasuredPair::allReduce(const std::string& algorithm, std::size_t bytes,
                               std::chrono::duration<double> time) {
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> inputs[2], outputs[2];
  for (int rank = 0; rank < 2; ++rank) {
    inputs[rank].assign(count, 1);
    outputs[rank].assign(count, 0);
  }
  const int calls = std::clamp(static_cast<int>((std::size_t{1} << 21) / bytes), 2, 200);
  return withAlgorithm(algorithm).repeat(time, [&](Communicator& comm) {
    for (int i = 0; i < calls; ++i)
      comm.allReduce(inputs[comm.rank()].data(), outputs[comm.rank()].data(), count,
                     DataType::float32, ReduceOp::sum);
  }) / calls;
}

double copySpeed(std::size_t working_set, std::chrono::duration<double> time) {
  const std::size_t bytes = working_set / 2;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const int times = messagesFor(bytes);
  return fastest(time,
                 [&] {
                   for (int i = 0; i < times; ++i) {
                     std::memcpy(to.data(), from.data(), bytes);
                     asm volatile("" ::: "memory"); // each copy must happen
                   }
                 }) /
         (static_cast<double>(bytes) * times);
}

double reduceSpeed(std::size_t element_bytes, std::size_t working_set,
                   std::chrono::duration<double> time) {
  const std::size_t bytes = working_set / 2, count = bytes / element_bytes;
  const auto reduce = kernels::reduceFunction(typeOf(element_bytes), ReduceOp::Kind::sum);
  std::vector<char> sum(bytes, 0), operand(bytes, 0);
  void* const outputs[] = {sum.data()};
  const void* const inputs[] = {sum.data(), operand.data()};
  const int times = messagesFor(bytes);
  return fastest(time,
                 [&] {
                   for (int i = 0; i < times; ++i) reduce(outputs, 1, inputs, 2, count);
                 }) /
         (static_cast<double>(bytes) * times);
}

double turnTime() {
  constexpr int kTurns = 2000;    // of each thread
  constexpr double kLongest = 10; // seconds: the turns of other programs may come in between
  topology::Processors one = topology::ownProcessors();
  one.resize(std::min<std::size_t>(one.size(), 1));
  double best = 1e300, all = 0;
  for (int round = 0; round < 5 && all < kLongest; ++round) {
    std::atomic<int> ready{0};
    Clock::time_point begin[2];
    const auto yield = [&](int number) {
      topology::bindThread(one);
      ready.fetch_add(1);
      while (ready.load() < 2) sched_yield();
      begin[number] = Clock::now();
      for (int i = 0; i < kTurns; ++i) sched_yield();
    };
    { std::jthread first(yield, 0), other(yield, 1); }
    const double took = secondsSince(std::min(begin[0], begin[1]));
    best = std::min(best, took);
    all += took;
  }
  return best / (2 * kTurns);
}

} // namespace rondo::tools
