// `rondo run`: processes that ranks start end with the job, whatever ends it.
#include <csignal>
#include <thread>

#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/spawn.h"

namespace rondo::test {
namespace {

using namespace tools;

/// Shell code: waits for the files.
std::string waitFor(const std::string& files) {
  return "for FILE in " + files + "; do while [ ! -e $FILE ]; do sleep 0.02; done; done\n";
}

TEST_CASE("run: programs that a rank's shell started end with the job, whatever ends it", "[run]") {
  const std::string wait = waitFor("pid0 pid1"), gone = untilGone("pid0 pid1");
  // The rank is the shell, which waits for its program instead of executing it.
  const std::string run =
      "env --default-signal=INT $RONDO run -p 2 -- sh -c './sleeper pid$RONDO_RANK; true' &\n"
      "JOB=$!\n" +
      wait;
  const std::string fails =
      "$RONDO run -p 2 -- sh -c 'if [ $RONDO_RANK = 1 ]; then while [ ! -e pid0 ]; do sleep 0.02; "
      "done; exit 7; fi; ./sleeper pid0; true' &\nJOB=$!\n" +
      waitFor("pid0") + "cp pid0 pid1\n";
  const std::vector<std::pair<std::string, int>> ends = {
      {run + "kill -TERM $JOB\n", 128 + SIGTERM},
      {run + "kill -INT $JOB\n", 128 + SIGINT},
      {run + "kill -9 $JOB\n", 128 + SIGKILL},
      {run + "kill -9 $(pgrep -P $JOB)\n", 128 + 9},
      {fails, 7}};
  for (const auto& [line, status] : ends) {
    INFO(line);
    const TemporaryFolder folder;
    const Outcome outcome = shell("cd " + folder.file("") + "\n" + kSleeper + line +
                                      "wait $JOB\nSTATUS=$?\n" + gone + "exit $STATUS\n",
                                  90);
    CHECK(outcome.out == "gone\n");
    CHECK(outcome.status == status);
  }
}

TEST_CASE("run: processes that ranks leave running are ended, also in another process group",
          "[run]") {
  const TemporaryFolder folder;
  // timeout(1) puts itself into a new process group, and the second one ignores SIGTERM.
  const Outcome outcome = shell(
      "cd " + folder.file("") + "\n" + kSleeper +
          "$RONDO run -p 2 -- sh -c 'if [ $RONDO_RANK = 0 ]; then timeout 1000 ./sleeper pid0 & "
          "else (trap \"\" TERM; exec ./sleeper pid1) & fi; "
          "while [ ! -e pid$RONDO_RANK ]; do sleep 0.02; done'\n" +
          "STATUS=$?\n" + untilGone("pid0 pid1") + "exit $STATUS\n",
      90);
  CHECK(outcome.out == "gone\n");
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
}

TEST_CASE("run: remaining processes get time to write a rank's output that they have read",
          "[run]") {
  for (const char* tag : {"", "--tag"}) {
    const Outcome outcome = shell(std::string("$RONDO run -p 1 ") + tag +
                                  " -- sh -c '(sleep 0.1; echo late) & exit 0'");
    CHECK(outcome.status == 0);
    CHECK(outcome.out == (*tag ? "[0] late\n" : "late\n"));
    CHECK(outcome.err == "");
  }
}

TEST_CASE("run: a process in a session of its own goes on, and is named", "[run]") {
  for (const char* end :
       {"exit 0", "exit 7", "kill -9 $PPID"}) { // the last one ends the supervisor
    INFO(end);
    const TemporaryFolder folder;
    const Outcome outcome = shell(
        "cd " + folder.file("") + "\n" + kSleeper +
            "$RONDO run -p 1 -- sh -c 'setsid ./sleeper pid & while [ ! -e pid ]; do sleep 0.02; "
            "done; " +
            end + "'\nkill $(cat pid) && echo named $(cat pid)\n",
        60);
    REQUIRE(outcome.out.find("named ") == 0);
    // Followed by its name: the script's, until that has become `sleep`.
    INFO(outcome.err);
    CHECK(outcome.err.find("in a session of their own, where ranks started them: pid " +
                           linesOf(outcome.out).front().substr(6) + " (sle") != std::string::npos);
  }
}

TEST_CASE("run: a job whose output no process reads any more ends", "[run]") {
  const Outcome outcome = shell(
      "$RONDO run -p 2 --tag -- sh -c 'while echo line; do :; done 2>/dev/null' | head -1", 60);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("] line\n") != std::string::npos);
}

TEST_CASE("run: a signal that is ignored, as by nohup, does not end the job", "[run]") {
  const TemporaryFolder folder;
  const pid_t launcher = fork();
  if (launcher == 0) {
    signal(SIGHUP, SIG_IGN);
    SpawnOptions spawn;
    spawn.ranks = 1;
    spawn.command = {"sh", "-c", "touch " + folder.file("ready") + "; sleep 1; exit 9"};
    spawn.grace = std::chrono::milliseconds(100);
    _exit(spawnRanks(spawn));
  }
  while (!std::filesystem::exists(folder.file("ready")))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(launcher, SIGHUP);
  int status = 0;
  REQUIRE(waitpid(launcher, &status, 0) == launcher);
  CHECK(WEXITSTATUS(status) == 9);
}

} // namespace
} // namespace rondo::test
