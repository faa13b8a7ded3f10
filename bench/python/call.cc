// Times a small all_reduce of the C++ interface in the way in which bench/python/call.py times
// Python's, so that their difference is the cost of Python.
#include <rondo/rondo.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

int main() {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 3000, kCalls = 300;
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  float a[2] = {};
  std::vector<double> times; // of one call, in microseconds
  for (int batch = 0; batch < kBatches; ++batch) {
    comm.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i)
      comm.allReduce(a, a, 2, rondo::DataType::float32, rondo::ReduceOp::sum);
    const std::chrono::duration<double, std::micro> all = Clock::now() - begin;
    times.push_back(all.count() / kCalls);
  }
  std::sort(times.begin(), times.end());
  if (comm.rank() == 0)
    std::printf("%-10s best %.3f us, 10th percentile %.3f us\n", "C++", times[0],
                times[kBatches / 10]);
}
