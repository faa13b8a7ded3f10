// Measures Gloo's all-reduce over TCP in the same way as `rondo bench` measures Rondo's
// (mpi_bench.c says what is timed). Each size is run with each of Gloo's algorithms; the
// fastest is printed.
//
// usage: gloo_bench RANKS BYTES...        prints for each size: bytes, microseconds
#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kClockEachFrom = 64 << 10;
constexpr double kSeconds = 0.05, kSecondsAlone = 1.0;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void pin(int rank) {
  cpu_set_t may, one;
  sched_getaffinity(0, sizeof may, &may);
  int skip = rank % CPU_COUNT(&may);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may) || skip-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

void reduceInto(const std::shared_ptr<gloo::Context>& context, float* data, std::size_t count,
                gloo::AllreduceOptions::Algorithm algorithm, std::uint32_t tag) {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, count);
  options.setAlgorithm(algorithm);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  options.setTag(tag);
  gloo::allreduce(options);
}

void barrier(const std::shared_ptr<gloo::Context>& context) {
  gloo::BarrierOptions options(context);
  options.setTag(7);
  gloo::barrier(options);
}

/// Returns the largest value of all ranks.
double agree(const std::shared_ptr<gloo::Context>& context, double mine) {
  gloo::AllreduceOptions options(context);
  options.setOutput(&mine, 1);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::max<double>));
  options.setTag(8);
  gloo::allreduce(options);
  return mine;
}

double median(const std::shared_ptr<gloo::Context>& context, std::vector<float>& data,
              const std::function<void()>& call) {
  const bool alone = data.size() * sizeof(float) >= kClockEachFrom;
  const int batch = alone ? 1 : 50;
  const std::vector<float> table(10007, 1.0f);
  const auto fill = [&] { // see mpi_bench.c
    for (std::size_t i = 0; i < data.size(); i += table.size())
      std::memcpy(&data[i], table.data(), sizeof(float) * std::min(table.size(), data.size() - i));
  };
  fill();
  for (int i = 0; i < (alone ? 2 : 300); ++i) call(); // as in mpi_bench.c
  barrier(context);
  auto start = Clock::now();
  for (int i = 0; i < 3; ++i) call();
  const double one = agree(context, secondsSince(start) / 3);
  const int samples =
      std::clamp(static_cast<int>((alone ? kSecondsAlone : kSeconds) / (one * batch + 1e-9)), 5,
                 alone ? 20 : 200);
  std::vector<double> times;
  for (int s = 0; s < samples; ++s) {
    fill(); // gloo reduces in place
    barrier(context);
    start = Clock::now();
    for (int i = 0; i < batch; ++i) call();
    times.push_back(secondsSince(start) / batch);
  }
  std::sort(times.begin(), times.end());
  return agree(context, times[times.size() / 2]) * 1e6;
}

void rankMain(int rank, int ranks, const std::string& folder,
              const std::vector<std::size_t>& sizes) {
  pin(rank);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  for (const std::size_t bytes : sizes) {
    std::vector<float> data(std::max<std::size_t>(bytes / sizeof(float), 1));
    double best = 1e30;
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    for (const auto algorithm : {Algorithm::RING, Algorithm::BCUBE})
      best = std::min(best, median(context, data, [&] {
                        reduceInto(context, data.data(), data.size(), algorithm, 9);
                      }));
    gloo::AllreduceHalvingDoubling<float> halving(context, {data.data()},
                                                  static_cast<int>(data.size()));
    best = std::min(best, median(context, data, [&] { halving.run(); }));
    if (rank == 0) std::printf("%zu %.4f\n", bytes, best);
  }
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: gloo_bench RANKS BYTES...\n"), 2;
  const int ranks = std::atoi(argv[1]);
  std::vector<std::size_t> sizes;
  for (int a = 2; a < argc; ++a) sizes.push_back(std::strtoull(argv[a], nullptr, 10));
  std::string folder = (std::filesystem::temp_directory_path() / "gloo_bench.XXXXXX").string();
  if (!mkdtemp(folder.data())) return std::perror("mkdtemp"), 1;
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    rankMain(rank, ranks, folder, sizes);
    _exit(0);
  }
  int bad = 0, status = 0;
  while (wait(&status) > 0) bad |= status;
  std::filesystem::remove_all(folder);
  return bad == 0 ? 0 : 1;
}
