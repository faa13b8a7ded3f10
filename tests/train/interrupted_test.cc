// Tests `rondo train` as a command: killed and interrupted runs are resumed from their checkpoint.
#include <filesystem>
#include <fstream>

#include "support/ranks.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

namespace {

/// Enough steps to take some tenths of a second, so that a signal arrives in the middle of the run.
const std::string kTrain =
    std::string("train -p 2 --data synthetic:shape=1x8x8,train=2000,test=100 --batch 20 ") +
    (kWholeGrid ? "--epochs 20 --verify-every 500 " : "--epochs 4 --verify-every 100 ");

/// Starts a run in the background, and executes `then` (a shell command; $JOB is the launcher) as
/// soon as there is a checkpoint.
Outcome disturbed(const std::string& file, const std::string& then) {
  // The background jobs of a shell ignore SIGINT by default.
  return shell("env --default-signal=INT $RONDO " + kTrain + "--pace 10 --checkpoint " + file +
               " --checkpoint-every 50 &\nJOB=$!\nwhile [ ! -e " + file +
               " ]; do sleep 0.01; done\n" + then + "\nwait $JOB\n");
}

/// Returns the checkpoint of a run that was not disturbed.
std::string undisturbed(const TemporaryFolder& folder) {
  const Outcome outcome = shell("$RONDO " + kTrain + "--checkpoint " + folder.file("whole"));
  REQUIRE(outcome.status == 0);
  return readFile(folder.file("whole"));
}

void requireResumed(const std::string& file, const std::string& expected) {
  REQUIRE(readFile(file) != expected); // the signal must have arrived before the end
  const Outcome outcome = shell("$RONDO " + kTrain + "--resume --checkpoint " + file);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  REQUIRE(contains(outcome.out, "test accuracy"));
  REQUIRE((readFile(file) == expected));
}

} // namespace

TEST_CASE("a killed rank ends all ranks with its number, and --resume ends with the same bytes") {
  const TemporaryFolder folder;
  const std::string expected = undisturbed(folder);
  for (const int rank : {0, 1}) {
    const std::string file = folder.file(std::to_string(rank));
    const Outcome outcome = disturbed(file, killRank(rank));
    INFO(outcome.err);
    REQUIRE(outcome.status == 128 + 9);
    REQUIRE(contains(outcome.err, "rank " + std::to_string(rank) + " (pid "));
    REQUIRE(contains(outcome.err, "was killed by signal 9"));
    requireResumed(file, expected);
  }
}

TEST_CASE("SIGINT and SIGTERM write a checkpoint and end all ranks, and --resume continues") {
  const TemporaryFolder folder;
  const std::string expected = undisturbed(folder);
  // The first command does what timeout(1) does: it signals the launcher and its process group.
  std::vector<std::string> kills = {"RANKS=" + kRanksOfJob + "; kill -TERM $JOB $RANKS $JOB"};
  if (kWholeGrid) kills.insert(kills.end(), {"kill -INT $JOB", "kill -TERM $JOB"});
  for (const std::string& kill : kills) {
    const std::string file = folder.file(std::to_string(kill.size()));
    const Outcome outcome = disturbed(file, kill);
    INFO(outcome.err << outcome.out);
    REQUIRE(outcome.status == 130);
    REQUIRE(outcome.err == "");
    REQUIRE(contains(outcome.out, "stopped after step "));
    REQUIRE(contains(outcome.out, "--resume goes on from " + file));
    requireResumed(file, expected);
  }
}

TEST_CASE("on several nodes gradients are reduced inside nodes first, and losses stay the same",
          "[sums]") {
  const std::string train =
      " RONDO_DEBUG=trace exec '$RONDO' train --model even --batch 16 --steps 2 --verify-every 1 "
      "--data synthetic:shape=1x8x8,train=32,test=8'";
  const auto lossOf = [](const Outcome& outcome) {
    const std::size_t at = outcome.out.find("loss ");
    REQUIRE(at != std::string::npos);
    return outcome.out.substr(at, outcome.out.find(',', at) - at);
  };
  const Outcome apart = shell("$RONDO run -p 4 -- sh -c 'RONDO_NODE=n$((RONDO_RANK / 2))" + train);
  const Outcome together = shell("$RONDO run -p 4 -- sh -c 'RONDO_NODE=n" + train);
  INFO(apart.out << together.out);
  REQUIRE(apart.status == 0);
  REQUIRE(together.status == 0);
  // All gradients except those of the first bucket.
  const std::string composed = "AllReduce of 3710464 float uses hierarchical";
  REQUIRE(countOf(apart.err, composed) == 4);
  REQUIRE(countOf(together.err, composed) == 0);
  REQUIRE(lossOf(apart) == lossOf(together));
  REQUIRE(apart.out.find("4 ranks over shm, tcp, batch") != std::string::npos);
  REQUIRE(together.out.find("4 ranks over shm, batch") != std::string::npos);
}

TEST_CASE("a device that does not exist is an error of one line") {
  const Outcome outcome = shell("$RONDO train -p 2 --device cuda");
  REQUIRE(outcome.status == 3);
  REQUIRE(linesOf(outcome.err).size() == 1);
  REQUIRE(contains(outcome.err, "device cuda"));
  // What no installation would change comes first.
  const Outcome narrow = shell("$RONDO train -p 2 --device cuda --precision bfloat16");
  REQUIRE(narrow.status == 3);
  REQUIRE(contains(narrow.err, "device cuda computes in float32 only"));
}

namespace {

/// Counts the error lines, except the launcher's line that says which rank ended first.
int errorsIn(const Outcome& outcome) {
  return countOf(outcome.err, "rondo: ") - countOf(outcome.err, " ended with status ");
}

} // namespace

TEST_CASE("an error of all ranks is printed once, and does not change files") {
  const TemporaryFolder folder;
  const std::string old = folder.file("old"), none = folder.file("none");
  std::ofstream(old) << "old\n";
  for (const std::string how :
       {"$RONDO train -p 2", "$RONDO train -p 2 --threads", "$RONDO run -p 2 -- $RONDO train"})
    for (const std::string& wrong :
         {std::string("--data synthetic:shape=1x8x8,train=40,test=20 --strategy tensor --clip 1"),
          "--data " + std::filesystem::path(old).parent_path().string()}) {
      for (const std::string& json : {old, none}) {
        const Outcome outcome = shell(how + " " + wrong + " --json " + json);
        INFO(how << " " << wrong << ": " << outcome.err);
        CHECK((outcome.status == 2 || outcome.status == 3));
        CHECK(errorsIn(outcome) == 1);
        CHECK(!contains(outcome.err, "rondo: rank 0: "));
        CHECK(!contains(outcome.err, "rondo: rank 1: "));
      }
      CHECK(readFile(old) == "old\n");
      CHECK(!std::filesystem::exists(none));
    }
}

TEST_CASE("an error of one rank is printed with its number") {
  const auto on1 = [](const std::string& variable) {
    return shell("$RONDO run -p 3 -- sh -c 'if [ $RONDO_RANK = 1 ]; then export " + variable +
                 "; fi; exec '$RONDO' train --steps 1'");
  };
  // Ranks agree that one of them cannot read a file, so all end with this error.
  const Outcome agreed = on1("RONDO_DATA=/no/such/folder");
  INFO(agreed.err);
  CHECK(agreed.status == 3);
  CHECK(errorsIn(agreed) == 1);
  CHECK(contains(agreed.err, "rank 1: "));
  CHECK(contains(agreed.err, "/no/such/folder"));
  const Outcome alone = on1("RONDO_DEBUG=loud");
  INFO(alone.err);
  CHECK(alone.status != 0);
  CHECK(contains(alone.err, "rondo: rank 1: invalid_argument: RONDO_DEBUG: "));
}

TEST_CASE("a result file that cannot be written is an error of one line before the training") {
  const Outcome outcome = shell("$RONDO " + kTrain + "--json /no/such/folder/x");
  REQUIRE(outcome.status == 3);
  REQUIRE(outcome.out == "");
  REQUIRE(linesOf(outcome.err).size() == 1);
  REQUIRE(contains(outcome.err, "/no/such/folder/x"));
}

TEST_CASE("files in a missing or read-only folder are refused before the first step") {
  const TemporaryFolder folder;
  // Permissions do not restrict the superuser, but a read-only mount does.
  const std::string read_only = "unshare --mount sh -c 'mount -t tmpfs -o ro none " +
                                folder.file("") + " && exec \"$@\"' sh ";
  std::vector<std::string> places = {""};
  if (shell(read_only + "true").status == 0) places.push_back(read_only);
  else WARN("not for a read-only folder: this process may not mount one");
  for (const std::string& place : places)
    for (const std::string option : {"checkpoint", "report", "trace", "metrics", "json"}) {
      const std::string path = (place.empty() ? "/proc/no/" : folder.file("")) + option;
      for (const std::string how : {"$RONDO train -p 2", "$RONDO train -p 2 --threads"}) {
        const Outcome outcome =
            shell(place + how + kTrain.substr(kTrain.find(" --data")) + "--" + option + " " + path);
        INFO(how << " --" << option << " " << path << ": " << outcome.out << outcome.err);
        CHECK(outcome.status == 3);
        CHECK(errorsIn(outcome) == 1);
        CHECK(contains(outcome.err, option));
        CHECK(contains(outcome.err, path));
        CHECK(!contains(outcome.out, "loss"));
        CHECK(!contains(outcome.out, "trained"));
      }
      if (option != "json" && option != "report") continue;
      std::ofstream(folder.file("sweep")) << "one: --lr 0.1\n";
      const Outcome outcome =
          shell("cp " + folder.file("sweep") + " /tmp/$$.sweep\n" + place +
                "$RONDO train --sweep /tmp/$$.sweep --steps 1 --data "
                "synthetic:shape=1x8x8,train=40,test=20 --" +
                option + " " + path + "\nSTATUS=$?\nrm /tmp/$$.sweep\n" + "exit $STATUS\n");
      INFO(outcome.out << outcome.err);
      CHECK(outcome.status == 3);
      CHECK(outcome.out == "");
      CHECK(contains(outcome.err, "--" + option));
    }
}

TEST_CASE("a file that cannot be read is one error of all ranks, which names it") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("$RONDO " + kTrain + "--resume --checkpoint " + folder.file("none"));
  REQUIRE(outcome.status == 3);
  REQUIRE(contains(outcome.err, folder.file("none") + ": "));
}

#endif

} // namespace rondo::test
