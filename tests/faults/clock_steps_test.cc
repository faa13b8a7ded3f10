// Tests ranks whose wall clock jumps (preload/clock_steps.cc): no wait depends on it.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "job.h"
#include "rondo/transports.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/test.h"
#include "tools/shell.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr std::int64_t kHour = 3600;

/// The wall clock of the processes that start with preloaded().
class WallClock {
 public:
  WallClock() { setTo(0); }

  /// `wrong_by`: seconds.
  void setTo(std::int64_t wrong_by) {
    std::fstream file(path_, started_ ? std::ios::in | std::ios::out : std::ios::out);
    file.write(reinterpret_cast<const char*>(&wrong_by), sizeof(wrong_by));
    started_ = true;
  }
  std::string preloaded() const {
    return "LD_PRELOAD=" RONDO_TEST_PROGRAMS "/libclock_steps.so CLOCK_STEPS=" + path_ + " ";
  }

 private:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("seconds");
  bool started_ = false; ///< the file exists; it is not truncated, because processes have mapped it
};

std::string started(const WallClock& clock, const std::string& settings,
                    const std::string& program) {
  return Job::withoutLauncher(kRanks, clock.preloaded() + settings, program);
}

std::vector<std::string> wires() {
  std::vector<std::string> names;
  for (const TransportInfo& transport : transports())
    if (transport.between_processes && !transport.between_devices && transport.missing.empty())
      names.push_back(transport.name);
  return names;
}

/// Stops a rank, lets the wall clock jump while the others wait for it, and requires that all of
/// them get this error, which names the rank. One job for each direction of the jump.
void stopAndStep(const std::string& settings, const std::string& code) {
  constexpr int kVictim = 1;
  struct World {
    WallClock clock;
    Job job;

    explicit World(const std::string& settings)
        : job(started(clock, settings, "endless_allreduce 3000"), kRanks) {}
  };
  std::list<World> worlds;
  for (const std::int64_t step : {kHour, -kHour}) {
    World& world = worlds.emplace_back(settings);
    REQUIRE(world.job.ready());
    REQUIRE(::kill(world.job.pids[kVictim], SIGSTOP) == 0);
    std::this_thread::sleep_for(100ms); // the others wait now
    world.clock.setTo(step);
  }
  for (World& world : worlds) {
    REQUIRE(world.job.ended(kRanks - 1));
    for (const auto& [rank, ending] : world.job.endings) {
      INFO("rank " << rank << ":" << ending.text);
      CHECK(rank != kVictim);
      CHECK(ending.code == code);
      CHECK(ending.culprit == kVictim);
    }
  }
}

} // namespace

TEST_CASE("the preloaded clock: a program sees the steps of the wall clock", "[release]") {
  WallClock clock;
  for (const std::int64_t step : {kHour, -kHour}) {
    clock.setTo(step);
    const Outcome outcome = shell(clock.preloaded() + "date +%s");
    const std::int64_t seen = std::atoll(outcome.out.c_str()) - std::time(nullptr);
    INFO(seen << outcome.err);
    CHECK(std::abs(seen - step) < kHour / 2);
  }
}

// Proves: no call and no heartbeat takes an hour of the wall clock for an hour of waiting, or waits
// until the clock has made up for a step back; a death, shrink() and succession of the hub neither.
TEST_CASE(
    "the wall clock jumps by an hour: only the rank that is killed is named, and the others "
    "shrink and reduce",
    "[release]") {
  std::int64_t step = kHour;
  for (const std::string& transport : wires()) {
    WallClock clock;
    const int victim = step > 0 ? 0 : kRanks - 1; // 0 hosts the control plane
    const std::string settings =
        "RONDO_TIMEOUT=60 RONDO_INIT_TIMEOUT=60 RONDO_TRANSPORT=" + transport;
    Job job(started(clock, settings, "recovering agree"), kRanks);
    INFO(transport << ", " << step << " s, rank " << victim);
    REQUIRE(job.ready());
    const auto jump = [&](int times) {
      for (int i = 0; i < times; ++i) {
        clock.setTo(i % 2 == 0 ? step : -step);
        std::this_thread::sleep_for(2ms);
      }
    };
    jump(200); // in many calls, and in some heartbeats
    REQUIRE(::kill(job.pids[victim], SIGKILL) == 0);
    jump(51); // while the others find out, and shrink
    const bool recovered = job.recovered(((1ul << kRanks) - 1) & ~(1ul << victim));
    INFO(job.refusals());
    CHECK(recovered);
    CHECK(job.endings.size() == kRanks - 1);
    for (const auto& [rank, ending] : job.endings) {
      INFO("rank " << rank << ":" << ending.text);
      CHECK(ending.code == "peer_dead");
      CHECK(ending.culprit == victim);
    }
    step = -step;
  }
}

TEST_CASE("the wall clock jumps by an hour: a stopped rank is named by its heartbeats",
          "[release]") {
  stopAndStep("RONDO_HEARTBEAT=0.5 RONDO_TIMEOUT=60", "unresponsive");
}

TEST_CASE("the wall clock jumps by an hour: calls end at their deadline", "[release]") {
  stopAndStep("RONDO_HEARTBEAT=60 RONDO_TIMEOUT=1", "timeout");
}

} // namespace rondo::test
