// How many calls `rondo bench` makes before it measures.
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rondo/callbacks.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tools/bench/measure.h"

namespace rondo::test {
namespace {

using namespace tools;
using Clock = std::chrono::steady_clock;

/// When rank 0's calls of one row began, and how many of them were timed.
struct Calls {
  std::vector<Clock::time_point> begun;
  std::size_t timed = 0;

  std::size_t before() const { return begun.size() - timed; }
  /// From the first call to the first timed one.
  Clock::duration warmUp() const { return begun.at(before()) - begun.front(); }
};

/// One row of an alltoall, which has only one placement, of `count` floats in each block.
Calls callsOf(BenchConfig config, std::size_t count) {
  config.collective = Collective::alltoall;
  config.min_bytes = config.max_bytes = count * sizeof(float) * 2;
  config.check = 0;
  Calls calls;
  std::mutex mutex;
  CallCallbacks callbacks;
  callbacks.begin = [&](const CallEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.rank == 0 && event.collective == Collective::alltoall)
      calls.begun.push_back(Clock::now());
  };
  const CallRegistration registered = onCalls(std::move(callbacks));
  auto control = Communicator::createAll(2), measured = Communicator::createAll(2);
  const auto complaints = onRanks(measured, [&](Communicator& comm) {
    Measurement measurement(config, control[static_cast<std::size_t>(comm.rank())], comm, nullptr);
    const Row row = measurement.measure(Pattern(DataType::float32, 2), DataType::float32,
                                        ReduceOp::sum, 0, count);
    if (comm.rank() == 0) calls.timed = static_cast<std::size_t>(row.out_of_place.value().calls);
    return std::string();
  });
  REQUIRE(firstComplaint(complaints).empty());
  return calls;
}

} // namespace

TEST_CASE("bench: without -n and -w, small calls are warmed up for 10 ms, large ones by one call") {
  constexpr std::size_t kProbes = 3; // they measure how long a call takes
  CHECK(callsOf({}, 256).warmUp() >= std::chrono::milliseconds(10));
  CHECK(callsOf({}, 16 << 10).before() == 1 + kProbes);
  BenchConfig config;
  config.iterations = 5;
  CHECK(callsOf(config, 256).before() == 1);
  config.warmup = 4;
  CHECK(callsOf(config, 256).before() == 4);
  config.iterations = 0;
  CHECK(callsOf(config, 256).before() == 4 + kProbes);
}

} // namespace rondo::test
