// Measures one message of each transport, and one small call of the library. Both ranks run in one
// thread, so that only the path itself is timed. `bench/instructions` counts its instructions.
//
// The benchmarks "two cores/" run the two ranks in two threads, each bound to a core. Those of the
// floor only write and read 8 B in shared memory, without the library: one way, as a call with a
// root must at least, or both ways, as an AllReduce must. The others are calls of the library.
// Their times over the floor's say how much the library adds:
//     bench_step --benchmark_filter='two cores' --benchmark_repetitions=5
//         --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
//
// bench_step [Google Benchmark's options]
// bench_step --calls N TRANSPORT COLLECTIVE BYTES
//     N calls of broadcast, scatter, gather or reduce between two ranks with blocks of BYTES, for
//     counting: the root's instructions are in callsOfRoot(), the other rank's in callsOfOther()
#include <benchmark/benchmark.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rondo/communicator.h"
#include "rondo/transports.h"

namespace {

using rondo::Communicator;
using rondo::DataType;

std::vector<Communicator> pair(const std::string& transport) {
  rondo::Options options = rondo::Options::fromEnvironment(); // RONDO_TRACE and the like
  options.transports = transport;
  return Communicator::createAll(2, options);
}

/// Uses a group, because the first call waits until both ends are connected.
template <class Calls>
void connect(const Calls& calls) {
  rondo::Group group;
  calls();
  group.end();
}

/// Rank 0 sends, then rank 1 receives, so that neither call waits.
void sendReceive(benchmark::State& state, const std::string& transport) {
  auto ranks = pair(transport);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes), to(bytes);
  const auto once = [&] {
    ranks[0].send(from.data(), bytes, DataType::uint8, 1);
    ranks[1].recv(to.data(), bytes, DataType::uint8, 0);
  };
  connect(once);
  for (auto _ : state) once();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void broadcast(std::vector<Communicator>& ranks, double& value) {
  for (Communicator& rank : ranks) rank.broadcast(&value, &value, 1, DataType::float64, 0);
}

void broadcasts(benchmark::State& state, const std::string& transport) {
  auto ranks = pair(transport);
  double value = 1;
  connect([&] { broadcast(ranks, value); });
  for (auto _ : state) broadcast(ranks, value);
}

/// Binds the calling thread to the first of these processors, or to the second.
void bind(const cpu_set_t& all, int which) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all) && which-- == 0) CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// Runs near() in this thread and far() in another one, each on its own core and equally often.
/// Measures near(). If far() is late, near() waits as soon as the memory between them is full.
template <class Near, class Far>
void onTwoCores(benchmark::State& state, const Near& near, const Far& far) {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) return state.SkipWithError("needs two processors");
  std::atomic<bool> runs = false;
  std::thread other([&, calls = state.max_iterations] {
    bind(all, 1);
    runs.store(true);
    for (benchmark::IterationCount i = 0; i < calls; ++i) far();
  });
  bind(all, 0);
  while (!runs.load()) continue;
  for (auto _ : state) near();
  other.join();
  sched_setaffinity(0, sizeof all, &all);
}

/// The least that a ring between two cores needs for messages of 8 B. The producer writes the body
/// and then the message's number; a cache line holds two messages, and the producer prefetches the
/// next line. The consumer polls the number. SlotRing does the same, and checks and counts more.
class BareRing {
 public:
  void send(std::uint64_t body) {
    // The consumer's count is in another core's cache, so it is read only when the ring seems full.
    while (written_ == free_until_)
      free_until_ = consumed_.load(std::memory_order_acquire) + kMessages;
    Message& message = messages_[written_ % kMessages];
    message.body = body;
    message.number.store(++written_, std::memory_order_release);
    if (written_ % 2 == 0) prefetchForWriting(messages_[written_ % kMessages]);
  }
  std::uint64_t receive() {
    Message& message = messages_[read_ % kMessages];
    while (message.number.load(std::memory_order_acquire) != read_ + 1) continue;
    const std::uint64_t body = message.body;
    consumed_.store(++read_, std::memory_order_release);
    return body;
  }

 private:
  static constexpr std::uint64_t kMessages = 512;
  struct alignas(32) Message {
    std::atomic<std::uint64_t> number{0};
    std::uint64_t body = 0;
  };
  static void prefetchForWriting(Message& message) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(message)); // __builtin_prefetch() would only share the line
#else
    __builtin_prefetch(&message, 1);
#endif
  }
  alignas(128) std::array<Message, kMessages> messages_;
  alignas(128) std::uint64_t written_ = 0, free_until_ = kMessages; // the producer's
  alignas(128) std::uint64_t read_ = 0;                             // the consumer's
  alignas(128) std::atomic<std::uint64_t> consumed_{0};
};

void floorOneWay(benchmark::State& state, bool root_sends) {
  BareRing ring;
  std::uint64_t in = 1;
  const auto send = [&] {
    benchmark::DoNotOptimize(in);
    ring.send(in);
  };
  const auto receive = [&] { benchmark::DoNotOptimize(ring.receive()); };
  if (root_sends) onTwoCores(state, send, receive);
  else onTwoCores(state, receive, send);
}

/// Each rank adds the other's value to its own.
void floorBothWays(benchmark::State& state) {
  BareRing to, fro;
  const auto rank = [](BareRing& out, BareRing& in) {
    return [&out, &in, mine = std::uint64_t{1}]() mutable {
      benchmark::DoNotOptimize(mine);
      out.send(mine);
      benchmark::DoNotOptimize(mine + in.receive());
    };
  };
  auto near = rank(to, fro), far = rank(fro, to);
  onTwoCores(
      state, [&] { near(); }, [&] { far(); });
}

/// Calls of the library with blocks of 8 B; rank 0, which is measured, is the root.
void calls(benchmark::State& state, const std::string& transport, rondo::Collective which) {
  auto ranks = pair(transport);
  std::array<std::array<double, 2>, 2> in{}, out{};
  const auto rank = [&](std::size_t r) {
    return [&, r,
            call = rondo::CollectiveCall{which, in[r].data(), out[r].data(), 1, DataType::float64,
                                         rondo::ReduceOp::sum, 0}] { ranks[r].call(call); };
  };
  const auto near = rank(0), far = rank(1);
  connect([&] {
    near();
    far();
  });
  onTwoCores(state, near, far);
}

/// Calls that follow each other without waiting: the ring of a channel has room for them.
constexpr int kTogether = 50;

[[gnu::noinline]] void callsOfRoot(Communicator& rank, const rondo::CollectiveCall& call) {
  for (int i = 0; i < kTogether; ++i) rank.call(call);
}
[[gnu::noinline]] void callsOfOther(Communicator& rank, const rondo::CollectiveCall& call) {
  for (int i = 0; i < kTogether; ++i) rank.call(call);
  benchmark::DoNotOptimize(&rank); // otherwise the compiler merges the two functions
}

int count(int calls, const std::string& transport, const std::string& name, std::size_t bytes) {
  const auto which = rondo::parseCollective(name);
  if (!rondo::hasRoot(which)) { // one rank would wait for the other, which this thread calls later
    std::fprintf(stderr, "bench_step: --calls counts collectives with a root only, not %s\n",
                 name.c_str());
    return 2;
  }
  auto ranks = pair(transport);
  std::vector<std::byte> in(2 * bytes), out(2 * bytes);
  const rondo::CollectiveCall call{
      which, in.data(), out.data(), bytes / 4, DataType::float32, rondo::ReduceOp::sum, 0};
  connect([&] {
    for (Communicator& rank : ranks) rank.call(call);
  });
  const bool root_sends =
      which == rondo::Collective::broadcast || which == rondo::Collective::scatter;
  for (int i = 0; i < calls; i += kTogether) {
    if (root_sends) callsOfRoot(ranks[0], call);
    callsOfOther(ranks[1], call);
    if (!root_sends) callsOfRoot(ranks[0], call);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 6 && argv[1] == std::string_view("--calls"))
    return count(std::atoi(argv[2]), argv[3], argv[4], std::strtoull(argv[5], nullptr, 10));
  for (const auto& transport : rondo::transports()) {
    if (transport.between_devices) continue;
    benchmark::RegisterBenchmark(("send+recv/" + transport.name).c_str(), sendReceive,
                                 transport.name)
        ->Arg(8)
        ->Arg(1 << 10)
        ->Arg(32 << 10);
    benchmark::RegisterBenchmark(("broadcast 8 B, root+other/" + transport.name).c_str(),
                                 broadcasts, transport.name);
  }
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("two cores/floor/root sends", floorOneWay, true)->UseRealTime();
  RegisterBenchmark("two cores/floor/root receives", floorOneWay, false)->UseRealTime();
  RegisterBenchmark("two cores/floor/both ways", floorBothWays)->UseRealTime();
  using rondo::Collective;
  for (const Collective which : {Collective::broadcast, Collective::scatter, Collective::gather,
                                 Collective::reduce, Collective::allreduce})
    RegisterBenchmark(("two cores/shm/" + std::string(rondo::name(which))).c_str(), calls, "shm",
                      which)
        ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
