// `rondo bench --device cuda` from its configuration to its results, with a fake GPU.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "support/host_devices.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/bench/bench.h"
#include "tools/command.h"

namespace rondo::test {
namespace {

using namespace tools;

/// A fake Gpu whose stream is a thread. `spoil`: inverts one bit of each copy back to the host.
class HostGpu final : public Gpu {
 public:
  explicit HostGpu(bool spoil) : spoil_(spoil) {}
  std::string name() const override { return "host GPU"; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return {new std::byte[bytes], [](std::byte* at) { delete[] at; }};
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    stream_.synchronize();
    std::memcpy(to, from, bytes);
    if (spoil_) static_cast<std::byte*>(to)[bytes / 2] ^= std::byte{1};
  }
  Stream stream() const override { return handle_; }
  void mark() override {
    stream_.push([this] { passed_.push_back(std::chrono::steady_clock::now()); });
  }
  std::vector<double> times() override {
    stream_.synchronize();
    std::vector<double> all;
    for (std::size_t i = 1; i < passed_.size(); ++i)
      all.push_back(std::chrono::duration<double, std::micro>(passed_[i] - passed_[i - 1]).count());
    passed_.clear();
    return all;
  }
  void beginGraph() override { stream_.beginCapture(); }
  void endGraph() override { graph_ = stream_.endCapture(); }
  void replay() override { stream_.replay(graph_); }

 private:
  const bool spoil_;
  std::vector<std::chrono::steady_clock::time_point> passed_;
  HostStream stream_;
  const Stream handle_ = stream_.handle();
  HostStream::Graph graph_;
};

struct Bench {
  BenchConfig config;
  TemporaryFolder folder;
  std::vector<int>
      opened; ///< numbers of the opened GPUs: one by the initial check, then one per rank

  explicit Bench(int ranks, int ranks_per_gpu, bool spoil = false) {
    config.ranks = ranks;
    config.ranks_per_gpu = ranks_per_gpu;
    config.threads = true;
    config.blocking = false;
    config.iterations = 2;
    config.min_bytes = 0;
    config.max_bytes = 96 << 10;
    config.step_bytes = 48 << 10;
    config.json = folder.file("result.json");
    config.open_gpu = [this, spoil](int number) {
      const std::lock_guard lock(mutex);
      opened.push_back(number);
      return std::make_unique<HostGpu>(spoil);
    };
  }
  /// Runs the benchmark without its table, which would hide a failed test's messages.
  int run() {
    std::fflush(stdout);
    const int stdout_copy = ::dup(STDOUT_FILENO);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
    const int status = runBench(config);
    std::fflush(stdout);
    ::dup2(stdout_copy, STDOUT_FILENO);
    ::close(nowhere);
    ::close(stdout_copy);
    return status;
  }
  nlohmann::json result() const { return nlohmann::json::parse(readFile(config.json)); }

  std::mutex mutex;
};

TEST_CASE("bench on GPUs: every collective is right, in place too, call by call and replayed",
          "[bench][gpu]") {
  const HostDevices devices;
  for (const Collective collective : kCollectives) {
    for (const int replays : {0, 3}) {
      INFO(name(collective) << ", " << replays << " replays");
      Bench bench(3, 3);
      bench.config.collective = collective;
      bench.config.replays = replays;
      REQUIRE(bench.run() == kSuccess);
      const nlohmann::json result = bench.result();
      CHECK(result["config"]["device"] == "cuda");
      CHECK(result["config"]["transport"] == "nvlink");
      CHECK(result["machine"]["gpu"] == "host GPU");
      CHECK(result["out_of_bounds"]["count"] == 0);
      CHECK_FALSE(result["results"].empty());
      for (const auto& row : result["results"]) {
        CHECK(row["out_of_place"]["nwrong"] == 0);
        CHECK(row["out_of_place"]["calls"] == 2 * std::max(replays, 1));
        CHECK(row["out_of_place"]["p50"] > 0.0);
        if (!row["in_place"].is_null()) CHECK(row["in_place"]["nwrong"] == 0);
      }
    }
  }
}

TEST_CASE("bench on GPUs: a sample is a replay, or a call from 64 KiB on, as its times show",
          "[bench][gpu]") {
  const HostDevices devices;
  Bench bench(2, 2);
  bench.config.iterations = 40;
  bench.config.min_bytes = bench.config.max_bytes = 64 << 10;
  REQUIRE(bench.run() == kSuccess);
  CHECK(bench.result()["results"][0]["out_of_place"]["calls_per_sample"] == 1);
  bench.config.replays = 3;
  REQUIRE(bench.run() == kSuccess);
  const auto timing = bench.result()["results"][0]["out_of_place"];
  CHECK(timing["calls_per_sample"] == 40);
  CHECK(timing["calls"] == 120);
}

TEST_CASE("bench on GPUs: rank r has GPU r / ranks-per-gpu", "[bench][gpu]") {
  HostDevices::Settings settings;
  settings.devices = 2;
  const HostDevices devices(settings);
  Bench bench(4, 2);
  REQUIRE(bench.run() == kSuccess);
  CHECK(bench.opened[0] == 1); // the initial check opens the last one
  std::sort(bench.opened.begin() + 1, bench.opened.end());
  CHECK(bench.opened == std::vector<int>{1, 0, 0, 1, 1});
}

TEST_CASE("bench on GPUs: wrong results are counted, status 1", "[bench][gpu]") {
  const HostDevices devices;
  Bench bench(2, 2, true);
  bench.config.min_bytes = bench.config.max_bytes = 4096;
  CHECK(bench.run() == kFailure);
  CHECK(bench.result()["results"][0]["out_of_place"]["nwrong"] > 0);
}

TEST_CASE("bench on GPUs: without one, a line that says what is missing, status 3",
          "[bench][gpu]") {
  const Outcome outcome =
      shell("CUDA_VISIBLE_DEVICES= $RONDO bench allreduce --device cuda -p 4 --ranks-per-gpu 4");
  CHECK(outcome.status == kError);
  CHECK(linesOf(outcome.err).size() == 1);
  CHECK(outcome.err.find("device cuda") != std::string::npos);
  CHECK(outcome.out.empty());
}

} // namespace
} // namespace rondo::test
