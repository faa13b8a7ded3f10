// Tests that a job of processes becomes smaller and larger while ranks die: the host of the control
// plane, ranks that joined, and newcomers that are about to join.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "job.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::string environment(const std::string& transport) {
  return "RONDO_SOCKET_IFNAME=lo RONDO_TRANSPORT=" + transport +
         " RONDO_TIMEOUT=30 RONDO_INIT_TIMEOUT=30";
}

/// A new file for the ids of a job.
struct IdFile {
  std::string path;
  IdFile() {
    static int number = 0;
    path = (std::filesystem::temp_directory_path() /
            ("rondo_id_" + std::to_string(::getpid()) + "_" + std::to_string(number++)))
               .string();
  }
  ~IdFile() { std::filesystem::remove(path); }
};

class GrowingJob {
 public:
  GrowingJob(const std::string& transport, int ranks)
      : transport_(transport),
        job(Job::withoutLauncher(ranks, environment(transport), "growing " + id_file_.path),
            ranks) {}

  /// Starts one more process.
  std::unique_ptr<Job> newcomer(int number) {
    return std::make_unique<Job>("exec " + kLimited + "env " + environment(transport_) +
                                     " " RONDO_TEST_PROGRAMS "/program_growing " + id_file_.path +
                                     " " + std::to_string(number) + " 2>/dev/null",
                                 1);
  }

 private:
  const std::string transport_;
  const IdFile id_file_;

 public:
  Job job;
};

void strike(Job& job, int victim) { REQUIRE(::kill(job.pids[victim], SIGKILL) == 0); }

/// Requires that these ranks of the old job reduce together with all of `ranks`.
void together(Job& job, unsigned long own, unsigned long ranks) {
  const bool good = job.until([&] {
    bool all = true;
    for (int rank = 0; rank < 32; ++rank) {
      if ((own >> rank & 1) == 0) continue;
      const Recovery& one = job.recoveries[rank];
      if (!one.refused.empty()) return true;
      all = all && one.ranks == ranks;
    }
    return all;
  });
  INFO(job.refusals());
  REQUIRE(good);
  REQUIRE(job.refusals().empty());
}

} // namespace

// Proves: a job whose host died grows by the public API, and afterwards the newcomers' job survives
// the death of its own host and of a newcomer.
TEST_CASE("kill the host, shrink, grow, kill the new host and a newcomer, grow again") {
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    GrowingJob all(transport, 4);
    REQUIRE(all.job.ready());
    strike(all.job, 0);
    together(all.job, 0b1110, 0b1110);
    const auto fourth = all.newcomer(4);
    together(all.job, 0b1110, 0b11110);
    together(*fourth, 0b10000, 0b11110);
    REQUIRE(fourth->ready());
    const auto fifth = all.newcomer(5), sixth = all.newcomer(6);
    together(*fifth, 0b100000, 0b1111110);
    together(*sixth, 0b1000000, 0b1111110);
    together(all.job, 0b1110, 0b1111110);
    REQUIRE(fifth->ready());
    strike(all.job, 1); // its process made the last id
    strike(*fifth, 5);
    together(all.job, 0b1100, 0b1011100);
    together(*fourth, 0b10000, 0b1011100);
    const auto seventh = all.newcomer(7);
    together(*seventh, 1 << 7, 0b11011100);
    together(all.job, 0b1100, 0b11011100);
  }
}

// Proves: a newcomer that dies at any moment costs the others nothing: they go on with the old
// communicator or without it, and the next newcomer gets in.
TEST_CASE("newcomers are killed while they join") {
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    GrowingJob all(transport, 3);
    REQUIRE(all.job.ready());
    for (int i = 0; i < 24; ++i) {
      const auto victim = all.newcomer(10 + i % 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(2 + 3 * i));
    } // ~Job kills it
    const auto last = all.newcomer(20);
    const unsigned long ranks = 0b111 | 1ul << 20;
    together(*last, 1ul << 20, ranks);
    together(all.job, 0b111, ranks);
  }
}

} // namespace rondo::test
