// Tests that a training run goes on when ranks are killed and when ranks join.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "job.h"
#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"

using namespace rondo::test;

namespace {

constexpr int kEpochs = 4;
constexpr long kSteps = kEpochs * 50; // 6000 samples in batches of 120

struct Folder {
  std::filesystem::path path;
  Folder() {
    static int number = 0;
    path = std::filesystem::temp_directory_path() /
           ("rondo_elastic_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

struct Run {
  std::string transport, strategy, model = "mlp", limits = "2:5", checkpoint = "''";
};

std::string environment(const Run& run) {
  return "OMP_NUM_THREADS=1 RONDO_SOCKET_IFNAME=lo RONDO_TRANSPORT=" + run.transport +
         " RONDO_TIMEOUT=30 RONDO_INIT_TIMEOUT=30";
}

std::string words(const Run& run, const Folder& folder, const std::string& number,
                  const std::string& how) {
  return "training " + folder.file("door") + " " + number + " " + how + " " + run.strategy + " " +
         run.model + " " + std::to_string(kEpochs) + " " + run.limits + " " + run.checkpoint;
}

/// Four ranks without a launcher: rank 0 hosts the control plane.
std::unique_ptr<Job> begin(const Run& run, const Folder& folder, int ranks = 4) {
  return std::make_unique<Job>(
      Job::withoutLauncher(ranks, environment(run), words(run, folder, "-1", "new")), ranks);
}

std::unique_ptr<Job> joiner(const Run& run, const Folder& folder, int number) {
  return std::make_unique<Job>(
      "exec timeout -s KILL 60 env " + environment(run) + " " RONDO_TEST_PROGRAMS "/program_" +
          words(run, folder, std::to_string(number), "join") + " 2>/dev/null",
      1);
}

bool reaches(Job& job, int rank, long step) {
  return job.until([&] {
    const auto& steps = job.trainings[rank].steps;
    return !job.recoveries.empty() || (!steps.empty() && steps.back().first >= step);
  });
}

/// Every step from `first` to the end in order. Where a rank was lost, one step may be made again,
/// or, if another rank has completed it, be taken over from there.
void checkSteps(const Training& training, long first) {
  long repeated = 0, last = first - 1;
  int before = training.steps.front().second;
  for (const auto& [number, ranks] : training.steps) {
    INFO("step " << number << " after step " << last);
    REQUIRE(number <= last + (ranks < before ? 2 : 1));
    if (number <= last) repeated += last + 1 - number;
    last = number;
    before = ranks;
  }
  CHECK(last == kSteps);
  CHECK(repeated <= 1);
}

void checkEnd(const Training& training, double accuracy, int ranks) {
  CHECK(training.made == kSteps);
  CHECK(training.ranks == ranks);
  CHECK(std::abs(training.accuracy - accuracy) <= 0.02);
}

double undisturbed(const Run& run) {
  const Folder folder;
  const auto job = begin(run, folder);
  job->end();
  INFO(job->refusals());
  REQUIRE(job->trainings[0].accuracy > 0.9);
  return job->trainings[0].accuracy;
}

} // namespace

// Proves: whichever rank is killed, also the one that hosts the control plane and writes the files,
// the others make every step of the run, repeat at most one, and reach the same accuracy.
TEST_CASE("a rank of four is killed in the middle of a training run") {
  int number = 0;
  for (const char* strategy : {"ddp", "local"}) {
    const double accuracy = undisturbed({.transport = "shm", .strategy = strategy});
    for (const char* transport : {"shm", "tcp"})
      for (const int victim : {0, 2}) {
        // With sanitizers: four of the eight cases, in which each pair of two values occurs once.
        if (const int at = number++; !kWholeGrid && at != 0 && at != 3 && at != 5 && at != 6)
          continue;
        const Run run{.transport = transport, .strategy = strategy};
        INFO(strategy << ", " << transport << ", rank " << victim);
        const Folder folder;
        const auto job = begin(run, folder);
        REQUIRE(job->ready());
        REQUIRE(reaches(*job, 1, kSteps / 3));
        REQUIRE(::kill(job->pids[victim], SIGKILL) == 0);
        job->end();
        INFO(job->refusals());
        for (int rank = 0; rank < 4; ++rank) {
          if (rank == victim) continue;
          checkSteps(job->trainings[rank], 1);
          checkEnd(job->trainings[rank], accuracy, 3);
          CHECK(job->trainings[rank].steps.back().second == 3);
        }
      }
  }
}

// Proves: what joins late gets the state of the run: it makes only the steps that are left, and the
// result is that of the run without a change.
TEST_CASE("a rank joins a training run, another is killed, and one more joins") {
  for (const char* strategy : {"ddp", "local"}) {
    const double accuracy = undisturbed({.transport = "shm", .strategy = strategy});
    for (const std::string transport : {"shm", "tcp"}) {
      if (!kWholeGrid && (transport == "shm") != (strategy == std::string("ddp"))) continue;
      const Run run{.transport = transport, .strategy = strategy};
      INFO(strategy << ", " << transport);
      const Folder folder;
      const auto job = begin(run, folder);
      REQUIRE(job->ready());
      const auto fourth = joiner(run, folder, 4);
      REQUIRE(fourth->ready());
      const long joined = fourth->trainings[4].steps.front().first;
      CHECK(joined > 1);
      CHECK(fourth->trainings[4].steps.front().second == 5);
      REQUIRE(::kill(job->pids[0], SIGKILL) == 0);
      REQUIRE(reaches(*job, 1, joined + 20));
      const auto fifth = joiner(run, folder, 5);
      fifth->end();
      fourth->end();
      job->end();
      INFO(job->refusals() << fourth->refusals() << fifth->refusals());
      for (int rank = 1; rank < 4; ++rank) {
        checkSteps(job->trainings[rank], 1);
        checkEnd(job->trainings[rank], accuracy, 5);
      }
      checkSteps(fourth->trainings[4], joined);
      checkEnd(fourth->trainings[4], accuracy, 5);
      checkEnd(fifth->trainings[5], accuracy, 5);
    }
  }
}

// Proves: too few ranks wait, and end with a checkpoint that a run of another size goes on from.
TEST_CASE("fewer ranks than MIN end with a checkpoint and say so") {
  const Folder folder;
  const Run run{.transport = "shm",
                .strategy = "ddp",
                .limits = "3:4",
                .checkpoint = folder.file("run.ckpt")};
  const auto job = begin(run, folder, 3);
  REQUIRE(job->ready());
  REQUIRE(::kill(job->pids[1], SIGKILL) == 0);
  job->end();
  for (const int rank : {0, 2}) {
    const std::string& text = job->recoveries[rank].refused;
    INFO(text);
    CHECK(text.find("peer_dead") != std::string::npos);
    CHECK(text.find("only 2 of at least 3 ranks are there after step") != std::string::npos);
    CHECK(text.find("--resume goes on from " + run.checkpoint) != std::string::npos);
  }
  CHECK(std::filesystem::exists(run.checkpoint));
}

// Proves: `rondo run --restart` brings a killed rank back into the run, and the command succeeds.
TEST_CASE("a killed rank is started again by the launcher and joins the run") {
  const Folder folder;
  const Run run{.transport = "shm", .strategy = "ddp", .limits = "2:4"};
  // The ranks take the door of the launcher from their environment; number 9 is that of a restart.
  const std::string script = folder.file("rank");
  std::ofstream(script) << "#!/bin/sh\n"
                           "n=-1; how=new; [ -n \"$RONDO_JOIN\" ] && n=9 && how=join\n"
                           "exec " RONDO_TEST_PROGRAMS "/program_training $RONDO_DOOR $n $how " +
                               run.strategy + " mlp " + std::to_string(kEpochs) + " 2:4 ''\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Job job("exec timeout -s KILL 60 env " + environment(run) +
              " " RONDO_COMMAND " run -p 4 --restart 1 -- " + script + " 2>/dev/null",
          4);
  REQUIRE(job.ready());
  REQUIRE(::kill(job.pids[2], SIGKILL) == 0);
  job.end();
  INFO(job.refusals());
  for (const int rank : {0, 1, 3, 9}) {
    CHECK(job.trainings[rank].made == kSteps);
    CHECK(job.trainings[rank].ranks == 4);
  }
}
