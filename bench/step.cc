// Measures one message of each transport, and one small call of the library. Both ranks run in one
// thread, so that only the path itself is timed. `bench/instructions` counts its instructions.
//
// bench_step [Google Benchmark's options]
// bench_step --calls N TRANSPORT COLLECTIVE BYTES
//     N calls of broadcast, scatter, gather or reduce between two ranks with blocks of BYTES, for
//     counting: the root's instructions are in callsOfRoot(), the other rank's in callsOfOther()
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
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
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
