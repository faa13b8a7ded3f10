// Tests `rondo train --sweep --parallel` and `--folds`: ranks that train different runs.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/train.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

using nlohmann::json;

namespace {

const std::string kTrain =
    "$RONDO train --data synthetic:shape=1x8x8,train=400,test=80 --batch 20 --epochs 2 ";

/// Writes a sweep of so many lines and returns its path.
std::string sweepOf(const TemporaryFolder& folder, int lines) {
  std::ofstream file(folder.file("sweep"));
  for (int i = 1; i <= lines; ++i)
    file << "run " << i << ": --lr 0.0" << i << " --seed " << i % 3 << "\n";
  return folder.file("sweep");
}

/// The runs of a JSON report without their times.
json runsOf(const std::string& path) {
  json runs = json::parse(readFile(path)).at("runs");
  for (json& run : runs) run.erase("epoch_seconds");
  return runs;
}

} // namespace

TEST_CASE("a sweep has the same results on any number of ranks, threads or processes") {
  const TemporaryFolder folder;
  const std::string sweep = sweepOf(folder, 8);
  json expected;
  for (const std::string ranks : {"-p 1", "-p 2", "-p 3 --threads", "-p 2 --transport tcp"}) {
    const Outcome outcome =
        shell(kTrain + "--sweep " + sweep + " --parallel " + ranks + " --json " +
              folder.file("json") + " --report " + folder.file("out"));
    INFO(ranks << ": " << outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    const json runs = runsOf(folder.file("json"));
    REQUIRE(runs.size() == 8);
    if (expected.empty()) expected = runs;
    REQUIRE(runs == expected);
    REQUIRE(linesOf(outcome.out).size() == 9);
    const std::string best = json::parse(readFile(folder.file("json"))).at("best");
    REQUIRE(contains(outcome.out, "best: " + best + ", with an accuracy of "));
    REQUIRE(contains(readFile(folder.file("out/index.html")), "<p>best: " + best));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    REQUIRE(expected[i]["name"] == "run " + std::to_string(i + 1));
    REQUIRE(expected[i]["epoch_accuracy"].size() == 2);
    for (std::size_t other = 0; other < i; ++other)
      REQUIRE(expected[i]["parameter_hash"] != expected[other]["parameter_hash"]);
  }
}

TEST_CASE("lines of a sweep that fail are results, and the others go on") {
  const TemporaryFolder folder;
  const std::string sweep = folder.file("sweep");
  std::ofstream(sweep) << "good: --lr 0.01\nunknown: --no-such-thing\nnowhere: --data " +
                              folder.file("") +
                              "\ntoo fast: --lr 1e5\nwide: -p 2\nalso good: --lr 0.02\n";
  const Outcome outcome =
      shell(kTrain + "-p 2 --parallel --sweep " + sweep + " --json " + folder.file("json"));
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 1);
  const json runs = runsOf(folder.file("json"));
  REQUIRE(runs.size() == 6);
  const std::vector<std::string> ends = {"",           "--no-such-thing",    "known sources",
                                         "not finite", "-p 2, but each run", ""};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    INFO(runs[i].dump());
    const std::string ended = runs[i]["ended"];
    REQUIRE(ended.empty() == ends[i].empty());
    REQUIRE(contains(ended, ends[i]));
    REQUIRE(runs[i]["failed"] == (i == 1 || i == 2 || i == 4));
    if (ended.empty()) REQUIRE(runs[i]["epoch_accuracy"].size() == 2);
  }
}

TEST_CASE("a sweep that was killed or stopped continues with the runs that are left") {
  const TemporaryFolder folder;
  const std::string sweep = sweepOf(folder, 8), results = folder.file("results");
  const std::string job = kTrain + "--pace 5 -p 2 --parallel --sweep " + sweep + " --json ";
  REQUIRE(shell(job + folder.file("whole")).status == 0);
  for (const std::string signal : {"9", "TERM"}) {
    std::filesystem::remove(results);
    const Outcome begun =
        shell(job + folder.file("part") + " --results " + results + " &\nJOB=$!\nwhile [ $(cat " +
              results + " 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.01; done\nkill -" + signal +
              " $JOB\nwait $JOB\n");
    INFO(signal << ": " << begun.out << begun.err);
    REQUIRE(begun.status == (signal == "9" ? 128 + 9 : 130));
    const auto kept = static_cast<int>(linesOf(readFile(results)).size());
    REQUIRE(kept >= 2);
    REQUIRE(kept < 8);
    std::ofstream(results, std::ios::app) << "{\"name\": \"ru"; // as if killed amid a line
    const Outcome rest = shell(job + folder.file("all") + " --results " + results);
    INFO(rest.out << rest.err);
    REQUIRE(rest.status == 0);
    REQUIRE(countOf(rest.out, " is in " + results) == kept);
    REQUIRE(runsOf(folder.file("all")) == runsOf(folder.file("whole")));
    REQUIRE(linesOf(readFile(results)).size() == 8);
  }
  const Outcome changed = shell(job + folder.file("all") + " --momentum 0.5 --results " + results);
  REQUIRE(changed.status == 0); // results with other options do not count
  REQUIRE(countOf(changed.out, " is in ") == 0);
}

TEST_CASE("folds train one run each; a fold is the same alone and among all") {
  const TemporaryFolder folder;
  const std::string report = " --json " + folder.file("json");
  const Outcome outcome = shell(kTrain + "--folds 3 -p 2 --report " + folder.file("out") + report);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const json all = json::parse(readFile(folder.file("json")));
  REQUIRE(all.at("runs").size() == 3);
  double mean = 0;
  for (const json& run : all["runs"]) mean += double(run["epoch_accuracy"].back()) / 3;
  REQUIRE(std::abs(mean - double(all["mean_accuracy"])) < 1e-12);
  REQUIRE(double(all["accuracy_deviation"]) >= 0);
  REQUIRE(contains(outcome.out, "mean accuracy "));
  REQUIRE(contains(readFile(folder.file("out/index.html")), "Cross-validation: mlp"));
  const Outcome alone = shell(kTrain + "--folds 3 --fold 2 -p 1" + report);
  REQUIRE(alone.status == 0);
  REQUIRE(json::parse(readFile(folder.file("json")))["parameter_hash"] ==
          all["runs"][1]["parameter_hash"]);
}

// Proves: such a value passes from rank to rank, into all files, and back.
TEST_CASE("the noise scale of a run may not be finite") {
  const TemporaryFolder folder;
  const std::string results = folder.file("results");
  const std::string job =
      "$RONDO train --data synthetic:shape=1x8x8,classes=3,train=40,test=20 --folds 2 "
      "--noise-scale --accumulate 2 --batch 64 --remainder uneven --epochs 2 -p 2 --report " +
      folder.file("out") + " --json " + folder.file("json") + " --results " + results;
  for (const int known : {0, 2}) {
    const Outcome outcome = shell(job);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    REQUIRE(countOf(outcome.out, " is in " + results) == known);
    const json page = json::parse(readFile(folder.file("json")));
    for (const json& run : page.at("runs"))
      REQUIRE(run["epoch_noise_scale"] == json{nullptr, nullptr});
    REQUIRE(!contains(readFile(folder.file("out/index.html")), "nan"));
  }
}

// Proves: a sweep does not take a fault of one rank for a run that diverges, which is `aborted`.
TEST_CASE("training on threads throws the fault of the rank that failed, whichever it is") {
  tools::TrainConfig config;
  config.options = smallRun();
  std::atomic<std::thread::id> first; // of rank 0, when it has made a step
  config.options.stop = [&] {
    const std::thread::id known = first;
    if (known != std::thread::id() && known != std::this_thread::get_id()) throw std::bad_alloc();
    return false;
  };
  REQUIRE_THROWS_AS(
      tools::trainHere(config, [&](const TrainProgress&) { first = std::this_thread::get_id(); }),
      std::bad_alloc);
}

// Proves: no fold's run begins, so that each of them would be refused.
TEST_CASE("more folds than samples are refused once, before the first run") {
  const TemporaryFolder folder;
  const std::string results = folder.file("results");
  const Outcome outcome = shell(kTrain + "--folds 1000 -p 2 --results " + results);
  const std::string said = outcome.out + outcome.err;
  INFO(said);
  REQUIRE(outcome.status != 0);
  REQUIRE(contains(said, "folds is 1000, but there are only 400 samples"));
  REQUIRE(std::count(said.begin(), said.end(), '\n') == 1);
  REQUIRE(readFile(results).empty());
}

TEST_CASE("options that do not belong to sweeps, folds and --join are refused") {
  const TemporaryFolder folder;
  const std::string sweep = sweepOf(folder, 1), pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& [options, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"--parallel", "--sweep"},
           {"--fold 1", "--folds"},
           {"--folds 1", "--folds"},
           {"--folds 3 --fold 4", "fold is 4, must be 1 to 3"},
           {"--folds 401", "folds is 401, but there are only 400 samples"},
           {"--folds 3 --checkpoint file", "takes no --sweep, --checkpoint"},
           {"--parallel --sweep " + pipe, "takes a regular file, not a pipe or device"},
           {"--join --elastic 1:4 --rendezvous-file none -p 2", "-p 2, but --join is for one rank"},
           {"--folds 3 --sweep " + sweep, "--folds K --fold F"},
           {"--results file", "--results is for --sweep and --folds"}}) {
    const Outcome outcome = shell(kTrain + options);
    INFO(options << ": " << outcome.out << outcome.err);
    REQUIRE(outcome.status != 0);
    REQUIRE(contains(outcome.out + outcome.err, complaint));
  }
}

#endif

} // namespace rondo::test
