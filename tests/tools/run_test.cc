// `rondo run`: statuses, signals, output and environment of the ranks, and that no rank
// outlives it.
#include <algorithm>
#include <csignal>
#include <set>
#include <thread>

#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/spawn.h"

namespace rondo::test {
namespace {

using namespace tools;

/// Status of the launcher when its ranks run these shell lines. Once they have created a file
/// "ready", the launcher gets so many SIGTERM, with pauses (fewer if it ends before).
int statusBehindSignals(const std::string& lines, bool patient, int signals,
                        std::chrono::milliseconds between = {}, int ranks = 1) {
  const TemporaryFolder folder;
  const pid_t launcher = fork();
  if (launcher == 0) {
    SpawnOptions spawn;
    spawn.ranks = ranks;
    spawn.command = {"sh", "-c", "cd " + folder.file("") + "\n" + lines};
    spawn.grace = std::chrono::milliseconds(100);
    spawn.patient = patient;
    _exit(spawnRanks(spawn));
  }
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  while (!std::filesystem::exists(folder.file("ready"))) pause();
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < signals && ended == 0; ++i) {
    kill(launcher, SIGTERM);
    std::this_thread::sleep_for(between);
    ended = waitpid(launcher, &status, WNOHANG);
  }
  if (ended == 0) ended = waitpid(launcher, &status, 0);
  REQUIRE(ended == launcher);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("run: the status is that of the first rank that fails, and the rank is named", "[run]") {
  for (const int ranks : {1, 2, 4}) {
    const std::string run = "$RONDO run -p " + std::to_string(ranks) + " ";
    CHECK(shell(run + "true").status == 0);
    for (int bad = 0; bad < ranks; ++bad) {
      const std::string rank = std::to_string(bad);
      const std::string when = "-- sh -c 'if [ $RONDO_RANK = " + rank + " ]; then ";
      for (const int status : {1, 7, 255}) {
        const Outcome outcome = shell(run + when + "exit " + std::to_string(status) + "; fi'");
        CHECK(outcome.status == status);
        CHECK(outcome.err.find("rank " + rank + " ") != std::string::npos);
      }
      const Outcome killed = shell(run + when + "kill -9 $$; fi'");
      CHECK(killed.status == 128 + 9);
      CHECK(killed.err.find("rank " + rank + " ") != std::string::npos);
      CHECK(killed.err.find("signal 9") != std::string::npos);
    }
  }
}

TEST_CASE("run: a program that cannot be started is named, status 127", "[run]") {
  const Outcome outcome = shell("$RONDO run -p 3 /no/such/program --option");
  CHECK(outcome.status == 127);
  CHECK(outcome.err.find("/no/such/program") != std::string::npos);
  CHECK(linesOf(outcome.err).size() == 1);
}

TEST_CASE("run: every rank once, its own arguments untouched, lines tagged on demand", "[run]") {
  const Outcome plain = shell(
      "$RONDO run -p 5 sh -c 'echo $RONDO_RANK of $RONDO_SIZE: $0 $*' -p 9 "
      "--tag -- --help");
  CHECK(plain.status == 0);
  const auto plain_lines = linesOf(plain.out);
  const std::set<std::string> lines(plain_lines.begin(), plain_lines.end());
  CHECK(plain_lines.size() == 5);
  for (int rank = 0; rank < 5; ++rank) {
    CHECK(lines.count(std::to_string(rank) + " of 5: -p 9 --tag -- --help") == 1);
  }

  // Both outputs, many lines, and a last line without a line end.
  const Outcome tagged = shell(
      "$RONDO run -p 3 --tag -- sh -c 'i=0; while [ $i -lt 2000 ]; do "
      "echo line $i; i=$((i+1)); done; echo oops >&2; printf end'");
  CHECK(tagged.status == 0);
  std::vector<int> next(3);
  std::set<std::string> ends;
  for (const std::string& line : linesOf(tagged.out)) {
    REQUIRE(line.size() > 4);
    const int rank = line[1] - '0';
    if (line == "[" + std::to_string(rank) + "] end") {
      ends.insert(line);
      continue;
    }
    const auto self = static_cast<std::size_t>(rank);
    CHECK(line == "[" + std::to_string(rank) + "] line " + std::to_string(next.at(self)++));
  }
  CHECK(next == std::vector<int>{2000, 2000, 2000});
  CHECK(ends.size() == 3);
  auto errors = linesOf(tagged.err);
  std::sort(errors.begin(), errors.end());
  CHECK(errors == std::vector<std::string>{"[0] oops", "[1] oops", "[2] oops"});
}

TEST_CASE("run: when a rank fails, the others may end by themselves, otherwise they are stopped",
          "[run]") {
  // Rank 1 ignores SIGTERM and goes on; rank 2 takes a second and ends with success.
  const Outcome outcome = shell(
      "$RONDO run -p 3 -- sh -c 'case $RONDO_RANK in 0) exit 5;; 1) trap \"\" TERM; "
      "while :; do sleep 0.2; done;; 2) sleep 1; echo done;; esac'",
      60);
  CHECK(outcome.status == 5);
  CHECK(outcome.out == "done\n");
  CHECK(outcome.err.find("rank 0 ") != std::string::npos);
  CHECK(outcome.err.find("still running") != std::string::npos);
  CHECK(outcome.err.find("stopping them: rank 1\n") != std::string::npos);
}

TEST_CASE("run: ranks that meet are told at once of a rank that ended without joining", "[run]") {
  // Rank 1 ends before rank 0 comes to the rendezvous, or after that. Rank 2 needs no other rank.
  for (const char* sleeps : {"0) sleep 1;;", "1) sleep 1;;"}) {
    const Outcome outcome =
        shell("RONDO_INIT_TIMEOUT=30 $RONDO run -p 3 -- sh -c 'case $RONDO_RANK in " +
                  std::string(sleeps) +
                  " esac; case $RONDO_RANK in 0) exec $0 bench allreduce -e 8;; 2) sleep 3; "
                  "echo done;; esac' $RONDO",
              60);
    INFO(sleeps << " " << outcome.err);
    CHECK(outcome.status == 3);
    CHECK(outcome.err.find("rank 1 did not join the rendezvous: its process has ended") !=
          std::string::npos);
    CHECK(outcome.out == "done\n");
  }
  const Outcome alone = shell("$RONDO run -p 2 -- sh -c '[ $RONDO_RANK = 1 ] || sleep 1; echo x'");
  CHECK(alone.status == 0);
  CHECK(alone.out == "x\nx\n");
}

TEST_CASE("run: signals are passed on to every rank", "[run]") {
  for (const char* signal : {"TERM", "INT", "HUP"}) {
    INFO(signal);
    TemporaryFolder folder;
    // The ranks report that they are ready, since the signal must come after their traps are set.
    // (A shell makes its background jobs ignore SIGINT; env undoes that.)
    const Outcome outcome = shell(
        "cd " + folder.file("") + "\nenv --default-signal=" + signal +
            " $RONDO run -p 3 -- sh -c 'trap \"echo got; exit 9\" " + signal +
            "; touch ready$RONDO_RANK; while :; do sleep 0.05; done' &\n"
            "job=$!\nwhile [ ! -e ready0 ] || [ ! -e ready1 ] || [ ! -e ready2 ]; do sleep 0.05; "
            "done\nkill -" +
            signal + " $job\nwait $job",
        60);
    CHECK(outcome.status == 9);
    CHECK(outcome.out == "got\ngot\ngot\n");
  }
}

TEST_CASE("run: a patient launcher lets ranks end after a signal; a second signal kills them",
          "[run]") {
  const std::string slow = "trap 'sleep 2; exit 9' TERM; touch ready; while :; do sleep 0.05; done";
  CHECK(statusBehindSignals(slow, true, 1) == 9);
  CHECK(statusBehindSignals(slow, false, 1) == 128 + SIGKILL);
  const std::string deaf = "trap '' TERM; touch ready; while :; do sleep 0.05; done";
  CHECK(statusBehindSignals(deaf, true, 100, kOneAsking) == 128 + SIGKILL);
  // timeout(1) signals the launcher, then its whole process group; that counts as one signal.
  CHECK(statusBehindSignals(slow, true, 2, std::chrono::milliseconds(20)) == 9);
}

// Proves: the rank that has stopped first is not taken for a failure, which ends the others.
TEST_CASE("run: a patient launcher waits for a rank that stops later than another", "[run]") {
  const TemporaryFolder folder;
  const std::string done = folder.file("done");
  CHECK(statusBehindSignals("TRAP='exit 130'; [ $RONDO_RANK = 1 ] || TRAP='sleep 2; touch " + done +
                                "; exit 130'\ntrap \"$TRAP\" TERM\ntouch there$RONDO_RANK\n"
                                "while [ ! -e there0 ] || [ ! -e there1 ]; do sleep 0.05; done\n"
                                "touch ready; while :; do sleep 0.05; done",
                            true, 1, {}, 2) == 130);
  CHECK(std::filesystem::exists(done));
}

namespace {

/// Shell code: waits until three ranks have come here.
const std::string kMeet =
    "touch here$RONDO_RANK; while [ ! -e here0 ] || [ ! -e here1 ] || [ ! -e here2 ]; do "
    "sleep 0.05; done; ";

Outcome runThree(const std::string& options, const std::string& lines) {
  const TemporaryFolder folder;
  return shell(
      "cd " + folder.file("") + "\n$RONDO run -p 3 " + options + " -- sh -c '" + lines + "'", 60);
}

} // namespace

TEST_CASE("run: an error of all ranks starts none again, nor do wrong arguments and stops",
          "[run]") {
  for (const char* status : {"2", "130", "3"}) {
    const bool all = *status == '3';
    const Outcome outcome = runThree(
        "--restart 5", "echo rank$RONDO_JOIN; " + kMeet +
                           (all ? "" : "[ $RONDO_RANK = 1 ] || sleep 1; ") + "exit " + status);
    INFO(status << ": " << outcome.err);
    CHECK(std::to_string(outcome.status) == status);
    CHECK(outcome.out == "rank\nrank\nrank\n");
    CHECK(!outcome.err.ends_with("again\n"));
  }
}

TEST_CASE("run: the job succeeds while as many ranks as --least are left or have succeeded",
          "[run]") {
  for (const char* when : {"", "sleep 1; "}) { // rank 0 dies first, or last
    const std::string lines =
        kMeet + "if [ $RONDO_RANK = 0 ]; then " + when + "kill -9 $$; fi; echo done";
    for (const int least : {2, 3}) {
      const Outcome outcome = runThree("--least " + std::to_string(least), lines);
      INFO(when << least << ": " << outcome.err);
      CHECK(outcome.status == (least == 2 ? 0 : 128 + SIGKILL));
      CHECK(outcome.out == "done\ndone\n");
    }
  }
}

TEST_CASE("run: a rank whose output never pauses does not keep the launcher from signals",
          "[run]") {
  const Outcome outcome = shell(
      "$RONDO run -p 2 --tag -- sh -c 'if [ $RONDO_RANK = 0 ]; then\n"
      "for I in 1 2 3 4 5 6 7 8; do yes \"\" & done; wait; fi; sleep 1; kill $PPID; sleep 60' "
      ">/dev/null",
      30);
  CHECK(outcome.status == 128 + SIGTERM); // 124: the launcher did not end
}

TEST_CASE("run: a tagged line without end is passed on in pieces", "[run]") {
  const Outcome outcome =
      shell("$RONDO run -p 1 --tag -- sh -c 'head -c 3000000 /dev/zero | tr \"\\0\" x'");
  CHECK(countOf(outcome.out, "[0] ") == 3);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), 'x') == 3000000);
}

TEST_CASE("run: processes that ranks have left are no zombies when they end", "[run]") {
  const Outcome outcome = shell(
      "$RONDO run -p 1 -- sh -c '(true & true & true &); sleep 0.3; TRIES=0\n"
      "while grep -ls \"^PPid:.$PPID\\$\" $(grep -ls \"^State:.Z\" /proc/[0-9]*/status) | "
      "grep -q .; do\n  TRIES=$((TRIES + 1)); [ $TRIES = 100 ] && exit 9; sleep 0.05\ndone'");
  CHECK(outcome.status == 0);
}

TEST_CASE("run: the ranks die with the launcher, even when it is killed", "[run]") {
  TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") +
                "\n$RONDO run -p 3 -- sh -c 'echo $$ > pid$RONDO_RANK.new; mv pid$RONDO_RANK.new "
                "pid$RONDO_RANK; exec sleep 1000' &\njob=$!\n"
                "while [ ! -e pid0 ] || [ ! -e pid1 ] || [ ! -e pid2 ]; do sleep 0.05; done\n"
                "kill -9 $job\n"
                // Until all are gone, or zombies that no process has waited for yet.
                "for pid in $(cat pid0 pid1 pid2); do\n"
                "  while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.05; done\n"
                "done\necho gone",
            60);
  CHECK(outcome.out == "gone\n");
}

} // namespace
} // namespace rondo::test
