// Times all_reduce of the C++ interface in the way in which bench/python/call.py times Python's, so
// that their difference is the cost of Python.
//
// usage: call BYTES...
#include <rondo/rondo.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  auto comm = rondo::Communicator::create(rondo::Rendezvous::environment());
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(comm.rank(), &own);
  ::sched_setaffinity(0, sizeof own, &own);
  for (int i = 1; i < argc; ++i) {
    const long bytes = std::atol(argv[i]);
    // As in call.py.
    const long calls = std::clamp((4L << 20) / bytes, 1L, 300L), batches = bytes < 4 << 20 ? 31 : 9;
    std::vector<float> a(static_cast<std::size_t>(bytes) / sizeof(float));
    std::vector<double> times; // of one call, in microseconds
    for (long batch = 0; batch < batches; ++batch) {
      comm.barrier();
      const auto begin = Clock::now();
      for (long call = 0; call < calls; ++call) comm.allReduce(a, rondo::ReduceOp::sum);
      const std::chrono::duration<double, std::micro> all = Clock::now() - begin;
      times.push_back(all.count() / static_cast<double>(calls));
    }
    std::sort(times.begin(), times.end());
    if (comm.rank() == 0) std::printf("%ld %.4f\n", bytes, times[times.size() / 2]);
  }
}
