// Tests how often a communicator's helper thread wakes up while it has nothing to do.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <system_error>
#include <thread>

#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// How often threads of this process other than the caller have gone to sleep so far.
long sleepsOfOthers() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;)
      if (long count = 0; word == "voluntary_ctxt_switches:" && status >> count) sum += count;
  }
  return sum;
}

/// For this thread, and threads that it starts.
void useOneProcessor() {
  const auto need = [](int result) {
    if (result != 0) throw std::system_error(errno, std::generic_category(), "affinity");
  };
  cpu_set_t set;
  need(::sched_getaffinity(0, sizeof set, &set));
  int first = 0;
  while (!CPU_ISSET(first, &set)) ++first;
  CPU_ZERO(&set);
  CPU_SET(first, &set);
  need(::sched_setaffinity(0, sizeof set, &set));
}

/// Sleeps of helper threads per call and rank, if calls are 6 ms apart.
double sleepsPerCallOnce() {
  constexpr int kRanks = 2, kCalls = 20;
  auto ranks = Communicator::createAll(kRanks, plainOptions());
  std::int32_t in[kRanks] = {1, 2}, out[kRanks];
  const auto call = [&] {
    std::vector<Work> works;
    for (int r = 0; r < kRanks; ++r)
      works.push_back(ranks[static_cast<std::size_t>(r)].allReduceAsync(
          &in[r], &out[r], 1, DataType::int32, ReduceOp::sum));
    for (Work& work : works) work.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
  };
  for (int i = 0; i < 3; ++i) call(); // starts the threads, which measure the pauses
  const long before = sleepsOfOthers();
  for (int i = 0; i < kCalls; ++i) call();
  return static_cast<double>(sleepsOfOthers() - before) / (kCalls * kRanks);
}

/// The fewest of several tries, for a minute at most: while a busy machine does not run the thread
/// that called, the helper on its processor sleeps once a millisecond.
double sleepsPerCall() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  double fewest = sleepsPerCallOnce();
  while (fewest >= 3 && std::chrono::steady_clock::now() < end)
    fewest = std::min(fewest, sleepsPerCallOnce());
  return fewest;
}

} // namespace

// Polling for the next call all the time costs up to 8 sleeps; a wake-up and one more poll cost 1
// or 2.
TEST_CASE("a helper thread sleeps through the time between calls that are far apart") {
  CHECK(sleepsPerCall() < 3);
  // An exception there is rethrown here, where it ends only this case.
  auto on_one_processor = std::async(std::launch::async, [] {
    useOneProcessor();
    return sleepsPerCall();
  });
  CHECK(on_one_processor.get() < 3);
}

} // namespace rondo::test
