// Measures how much NCCL's ABI costs compared with the public API: runs the same AllReduce through
// both, in turn, in one process whose ranks are threads.
//
// usage: bench_nccl [RANKS [ROUNDS]]   (2, 31). Times are medians over the rounds, of rank 0; the
// last column is the median of the rounds' differences.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "nccl_api.h"
#include "rondo/rondo.h"

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Microseconds per call of `body`, from `calls` calls.
template <class Body>
double timed(int calls, const Body& body) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) body();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
}

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr));
  std::exit(1);
}

/// One rank's part in all rounds, for all sizes.
void run(rondo::Communicator& direct, ncclComm_t comm, int rounds, std::barrier<>& all) {
  for (std::size_t bytes = 8; bytes <= 4 << 20; bytes *= 8) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> input(count, 1), output(count);
    const int calls = static_cast<int>(std::clamp<std::size_t>((1 << 24) / bytes, 8, 4000));
    const auto byApi = [&] {
      direct.allReduce(input.data(), output.data(), count, rondo::DataType::float32,
                       rondo::ReduceOp::sum);
    };
    const auto byAbi = [&] {
      check(ncclAllReduce(input.data(), output.data(), count, ncclFloat, ncclSum, comm, nullptr));
    };
    std::vector<double> api, abi, difference;
    for (int round = -2; round < rounds; ++round) { // two rounds to warm up
      all.arrive_and_wait();
      // The order changes from round to round, so that the caches favour neither.
      double times[2];
      for (int turn = 0; turn < 2; ++turn) {
        const bool first = (turn + round) % 2 == 0;
        times[first ? 0 : 1] = first ? timed(calls, byApi) : timed(calls, byAbi);
      }
      if (round < 0) continue;
      api.push_back(times[0]);
      abi.push_back(times[1]);
      difference.push_back(times[1] - times[0]);
    }
    if (direct.rank() == 0)
      std::printf("%10zu %12.3f %12.3f %10.3f %8.1f%%\n", bytes, median(api), median(abi),
                  median(difference), 100 * median(difference) / median(api));
  }
}

} // namespace

int main(int count, char** words) {
  const int ranks = count > 1 ? std::atoi(words[1]) : 2;
  const int rounds = count > 2 ? std::atoi(words[2]) : 31;
  auto direct = rondo::Communicator::createAll(ranks);
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  check(ncclCommInitAll(comms.data(), ranks, nullptr));
  std::printf("AllReduce of floats, %d rank%s as threads, microseconds a call\n", ranks,
              ranks == 1 ? "" : "s");
  std::printf("%10s %12s %12s %10s %9s\n", "bytes", "public API", "NCCL's ABI", "more", "");
  std::barrier<> all(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < comms.size(); ++rank)
      threads.emplace_back([&, rank] { run(direct[rank], comms[rank], rounds, all); });
  }
  for (ncclComm_t comm : comms) check(ncclCommDestroy(comm));
}
