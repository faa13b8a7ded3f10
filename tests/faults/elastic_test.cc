// Tests that a training run goes on when ranks are killed and when ranks join.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job.h"
#include "support/grid.h"
#include "support/paths.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

constexpr int kEpochSteps = 50; // 6000 samples in batches of 120

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
  int checkpoint_every = 0, redundancy = strategy == "fsdp" ? 1 : -1;
  int epochs = 2;
  std::string hook = "none";
  int servers = 4; ///< of ps
  bool dedicated = false;

  long steps() const { return epochs * kEpochSteps; }
};

std::string environment(const Run& run) {
  return "OMP_NUM_THREADS=1 RONDO_SOCKET_IFNAME=lo RONDO_TRANSPORT=" + run.transport +
         " RONDO_TIMEOUT=30 RONDO_INIT_TIMEOUT=30";
}

std::string words(const Run& run, const Folder& folder, const std::string& number,
                  const std::string& how) {
  return "training " + folder.file("id") + " " + number + " " + how + " " + run.strategy + " " +
         run.model + " " + std::to_string(run.epochs) + " " + run.limits + " " + run.checkpoint +
         " " + std::to_string(run.checkpoint_every) + " " + std::to_string(run.redundancy) + " " +
         run.hook + " " + std::to_string(run.servers) + " " + (run.dedicated ? "1" : "0");
}

/// Four ranks without a launcher: rank 0 hosts the control plane.
std::unique_ptr<Job> begin(const Run& run, const Folder& folder, int ranks = 4) {
  return std::make_unique<Job>(
      Job::withoutLauncher(ranks, environment(run), words(run, folder, "-1", "new")), ranks);
}

std::unique_ptr<Job> joiner(const Run& run, const Folder& folder, int number) {
  return std::make_unique<Job>(
      "exec " + kLimited + "env " + environment(run) + " " RONDO_TEST_PROGRAMS "/program_" +
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
/// or steps that another rank has completed be taken over from there.
void checkSteps(const Run& run, const Training& training, long first) {
  // Ranks of local are up to 3 steps apart, since training.cc has them average every 4.
  const long apart = run.strategy == "local" ? 3 : 1;
  long repeated = 0, last = first - 1;
  int before = training.steps.front().second;
  for (const auto& [number, ranks] : training.steps) {
    INFO("step " << number << " after step " << last);
    REQUIRE(number <= last + (ranks < before ? apart + 1 : 1));
    if (number <= last) repeated += last + 1 - number;
    last = number;
    before = ranks;
  }
  CHECK(last == run.steps());
  CHECK(repeated <= 1);
}

/// The accuracy of a run whose ranks do not change. Sharded ones make the same steps as ddp.
double undisturbed(const Run& run) {
  static std::map<std::pair<bool, int>, double> known;
  const bool local = run.strategy == "local";
  double& accuracy = known.try_emplace({local, run.epochs}, -1).first->second;
  if (accuracy >= 0) return accuracy;
  const Folder folder;
  const auto job = begin(
      {.transport = "shm", .strategy = local ? "local" : "ddp", .epochs = run.epochs}, folder);
  job->end();
  INFO(job->refusals());
  REQUIRE(job->trainings[0].accuracy > 0.9);
  accuracy = job->trainings[0].accuracy;
  return accuracy;
}

void checkEnd(const Run& run, const Training& training, int ranks) {
  CHECK(training.made == run.steps());
  CHECK(training.ranks == ranks);
  CHECK(std::abs(training.accuracy - undisturbed(run)) <= 0.02);
}

/// A rank that lives and has not completed the newest step takes its shard from a copy, too.
void checkCopied(const Job& job, int victim, int ranks) {
  REQUIRE(!job.logged.empty());
  INFO(job.logged[0]);
  CHECK(job.logged[0].find("the shard of rank " + std::to_string(victim) +
                           " comes from its copy on rank " +
                           std::to_string((victim + ranks - 1) % ranks)) != std::string::npos);
}

} // namespace

// Proves: whichever rank is killed, also the one that hosts the control plane and writes the files,
// the others make every step of the run, repeat at most one, and reach the same accuracy.
TEST_CASE("a rank of four is killed in the middle of a training run", "[command]") {
  struct Case {
    const char *strategy, *transport;
    int victim;
    bool always = true; ///< also with sanitizers
  };
  for (const auto& [strategy, transport, victim, always] :
       std::vector<Case>{{"ddp", "shm", 0},
                         {"ddp", "tcp", 2, false},
                         {"local", "tcp", 0},
                         {"zero1", "tcp", 2},
                         {"zero2", "shm", 0},
                         {"fsdp", "shm", 2},
                         {"fsdp", "tcp", 0, false},
                         {"ps", "shm", 0}}) {
    if (!kWholeGrid && !always) continue;
    const Run run{.transport = transport, .strategy = strategy};
    INFO(strategy << ", " << transport << ", rank " << victim);
    const Folder folder;
    const auto job = begin(run, folder);
    REQUIRE(job->ready());
    REQUIRE(reaches(*job, 1, run.steps() / 3));
    REQUIRE(::kill(job->pids[victim], SIGKILL) == 0);
    job->end();
    INFO(job->refusals());
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      checkSteps(run, job->trainings[rank], 1);
      checkEnd(run, job->trainings[rank], 3);
      CHECK(job->trainings[rank].steps.back().second == 3);
    }
    if (run.strategy == "ddp" || run.strategy == "local") continue;
    checkCopied(*job, victim, 4);
  }
}

// Proves: a run goes on without a worker, and without a server, also if servers do not work
// themselves and if only some ranks have a shard.
TEST_CASE("a worker or a server of a ps run is killed", "[command]") {
  struct Case {
    int ranks, servers;
    bool dedicated;
    int victim;
    bool always = true; ///< also with sanitizers
  };
  for (const auto& [ranks, servers, dedicated, victim, always] :
       std::vector<Case>{{3, 1, false, 0},
                         {3, 1, false, 1, false},
                         {3, 1, true, 0, false},
                         {3, 1, true, 1},
                         {4, 2, true, 1},
                         {4, 2, true, 3, false},
                         {3, 2, true, 1, false},
                         {3, 2, true, 2, false}}) {
    if (!kWholeGrid && !always) continue;
    const Run run{.transport = "shm", .strategy = "ps", .servers = servers, .dedicated = dedicated};
    INFO(ranks << " ranks, " << servers << (dedicated ? " dedicated" : "") << " servers, rank "
               << victim);
    const Folder folder;
    const auto job = begin(run, folder, ranks);
    REQUIRE(job->ready());
    REQUIRE(reaches(*job, victim == 1 ? 2 : 1, run.steps() / 3));
    REQUIRE(::kill(job->pids[victim], SIGKILL) == 0);
    job->end();
    INFO(job->refusals());
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      checkSteps(run, job->trainings[rank], 1);
      checkEnd(run, job->trainings[rank], ranks - 1);
    }
    if (victim >= servers) {
      // It had no shard.
      for (const std::string& text : job->logged)
        CHECK(text.find("rank " + std::to_string(victim) + " comes") == std::string::npos);
      continue;
    }
    checkCopied(*job, victim, ranks);
  }
}

// Proves: what joins late gets the state of the run: it makes only the steps that are left, and the
// result is that of the run without a change.
TEST_CASE("a rank joins a training run, another is killed, and one more joins", "[command]") {
  struct Case {
    const char *strategy, *transport;
  };
  for (const auto& [strategy, transport] :
       std::vector<Case>{{"ddp", "shm"}, {"local", "tcp"}, {"fsdp", "tcp"}, {"ps", "shm"}}) {
    // Long enough that both come before its end, also where a process takes seconds to start.
    const Run run{.transport = transport, .strategy = strategy, .epochs = 8};
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
      checkSteps(run, job->trainings[rank], 1);
      checkEnd(run, job->trainings[rank], 5);
    }
    checkSteps(run, fourth->trainings[4], joined);
    checkEnd(run, fourth->trainings[4], 5);
    checkEnd(run, fifth->trainings[5], 5);
  }
}

namespace {

void checkReturn(const Run& run) {
  INFO(run.strategy);
  const Folder folder;
  Run own = run;
  own.checkpoint = folder.file("run.ckpt");
  const auto job = begin(own, folder);
  REQUIRE(job->ready());
  REQUIRE(reaches(*job, 1, run.steps() / 2));
  REQUIRE(::kill(job->pids[2], SIGKILL) == 0);
  job->end();
  INFO(job->refusals());
  for (const int rank : {0, 1, 3}) {
    const Training& training = job->trainings[rank];
    long last = 0, returned = 0, from = -1;
    for (const auto& [number, ranks] : training.steps) {
      INFO("step " << number << " after step " << last);
      if (number != last + 1) {
        CHECK(ranks == 3);
        from = number - 1;
        CHECK(from == last / run.checkpoint_every * run.checkpoint_every);
        ++returned;
      }
      last = number;
    }
    CHECK(returned == 1);
    checkEnd(run, training, 3);
    REQUIRE(!job->logged.empty());
    CHECK(job->logged[0] ==
          " the shard of rank 2 is lost: all ranks go on from the checkpoint of step " +
              std::to_string(from));
  }
}

} // namespace

// Proves: without copies all ranks return to the last checkpoint, say so, repeat the steps since
// then and no others, and reach the same accuracy; also if the file has residuals of the lost rank.
TEST_CASE("a rank of a run without copies is killed: the others return to the checkpoint") {
  Run run{.transport = "shm", .strategy = "fsdp", .checkpoint_every = 30, .redundancy = 0};
  checkReturn(run);
  run.strategy = "ps";
  run.hook = "topk:0.5";
  checkReturn(run);
}

// Proves: copies are one deep: of two lost ranks that are no neighbours nothing is lost, and two
// neighbours make the others begin again if there is no checkpoint yet.
TEST_CASE("two ranks of an fsdp run are killed at once", "[command]") {
  for (const bool neighbours : {false, true}) {
    const Folder folder;
    const Run run{.transport = "shm", .strategy = "fsdp", .checkpoint = folder.file("run.ckpt")};
    INFO("neighbours " << neighbours);
    const auto job = begin(run, folder);
    REQUIRE(job->ready());
    REQUIRE(reaches(*job, 1, 20));
    const int other = neighbours ? 3 : 0;
    for (const int victim : {other, 2}) REQUIRE(::kill(job->pids[victim], SIGKILL) == 0);
    job->end();
    INFO(job->refusals());
    REQUIRE(!job->logged.empty());
    INFO(job->logged[0]);
    CHECK((job->logged[0].find("all ranks begin the run again") != std::string::npos) ==
          neighbours);
    const Training& training = job->trainings[1];
    CHECK(training.made == run.steps());
    CHECK(training.ranks == 2);
    CHECK(training.accuracy > 0.9);
    if (!neighbours) checkSteps(run, training, 1);
  }
}

// Proves: too few ranks wait, and end with a checkpoint that a run of another size goes on from.
TEST_CASE("fewer ranks than MIN end with a checkpoint and say so", "[command]") {
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

namespace {

/// `rondo train --elastic` of `ranks` ranks, the last of which is killed during the run. Then comes
/// other shell code; $JOB is the launcher, whose errors are in the file err.
Outcome withoutTheLast(const Folder& folder, int ranks, const std::string& options,
                       const std::string& then) {
  return shell("cd " + folder.path.string() +
                   "\nenv --default-signal=INT $RONDO train --pace 5 --batch 20 --data "
                   "synthetic:shape=1x8x8,train=2000,test=100 --metrics metrics --checkpoint file "
                   "-p " +
                   std::to_string(ranks) + " " + options +
                   " 2>err &\nJOB=$!\nwhile [ ! -s metrics ]; do sleep 0.01; done\n" +
                   killRank(ranks - 1) + then + "\nwait $JOB; STATUS=$?; cat err >&2; exit $STATUS",
               60);
}

} // namespace

// Proves: the launcher does not end the ranks that wait. (Others have 5 s after the first death.)
TEST_CASE("fewer ranks than MIN wait as long as --elastic-wait says, also under rondo train") {
  const Folder folder;
  const Outcome outcome = withoutTheLast(folder, 2, "--elastic 2:2 --elastic-wait 8", "");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 3);
  CHECK(contains(outcome.err, "only 1 of at least 2 ranks are there after step "));
  CHECK(contains(outcome.err, "--resume goes on from file"));
  CHECK(!contains(outcome.err, "stopping them"));
  CHECK(std::filesystem::exists(folder.file("file")));
}

TEST_CASE("fewer ranks than MIN that wait end with a checkpoint when they are asked to stop") {
  const Folder folder;
  const Outcome outcome =
      withoutTheLast(folder, 2, "--elastic 2:2 --elastic-wait 600",
                     "while ! grep -q waiting err; do sleep 0.05; done; kill -INT $JOB");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 130);
  CHECK(contains(outcome.out, "stopped after step "));
  CHECK(contains(outcome.out, "--resume goes on from file"));
  CHECK(std::filesystem::exists(folder.file("file")));
}

TEST_CASE(
    "rondo train succeeds without a rank that was killed, and reports the ranks that are left") {
  const Folder folder;
  const Outcome outcome = withoutTheLast(folder, 3, "--elastic 2:3 --json json --epochs 2", "");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.err, "the others "));
  CHECK(contains(readFile(folder.file("json")), "\n  \"ranks\": 2,"));
}

// Proves: `rondo run --restart` brings a killed rank back into the run, and the command succeeds.
TEST_CASE("a killed rank is started again by the launcher and joins the run") {
  const Folder folder;
  const Run run{.transport = "shm", .strategy = "ddp", .limits = "2:4", .epochs = 8};
  // The ranks take the launcher's rendezvous file from their environment; number 9 is that of a
  // restart.
  const std::string script = folder.file("rank");
  std::ofstream(script) << "#!/bin/sh\n"
                           "n=-1; how=new; [ -n \"$RONDO_JOIN\" ] && n=9 && how=join\n"
                           "exec " RONDO_TEST_PROGRAMS
                           "/program_training $RONDO_RENDEZVOUS_FILE $n $how " +
                               run.strategy + " mlp " + std::to_string(run.epochs) +
                               " 2:4 '' 0 -1 none 4 0\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Job job("exec " + kLimited + "env " + environment(run) +
              " " RONDO_COMMAND " run -p 4 --restart 1 -- " + script + " 2>/dev/null",
          4);
  REQUIRE(job.ready());
  REQUIRE(::kill(job.pids[2], SIGKILL) == 0);
  job.end();
  INFO(job.refusals());
  for (const int rank : {0, 1, 3, 9}) {
    CHECK(job.trainings[rank].made == run.steps());
    CHECK(job.trainings[rank].ranks == 4);
  }
}

} // namespace rondo::test
