// Tests the commands `rondo train --strategy ps` and `--sweep`, printed losses, waiting for
// ranks, and the death of a server.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

#ifdef RONDO_HAVE_DNNL

TEST_CASE("every rank names a server that dies, over shared memory and over sockets") {
  const TemporaryFolder folder;
  for (const char* transport : {"shm", "tcp"})
    for (const char* consistency : {"bsp", "asp"}) {
      // Rank 0 is a server, not a worker.
      const std::string metrics = folder.file(std::string(transport) + consistency);
      const Outcome outcome = shell(
          std::string("$RONDO train -p 3 --strategy ps --dedicated-servers --transport ") +
          transport + " --consistency " + consistency +
          " --data synthetic:shape=1x8x8,train=2000,test=100 --batch 20 --epochs 500 --metrics " +
          metrics + " &\nJOB=$!\nwhile [ ! -s " + metrics + " ]; do sleep 0.01; done\n" +
          killRank(0) + "wait $JOB\n");
      INFO(transport << ", " << consistency << ": " << outcome.err);
      REQUIRE(outcome.status == 128 + 9);
      REQUIRE(contains(outcome.err, "rank 0 (pid "));
      for (const char* rank : {"rondo: rank 1: peer_dead: ", "rondo: rank 2: peer_dead: "})
        REQUIRE(contains(outcome.err, rank));
    }
}

TEST_CASE("a wrong value of a straggler option is refused with the usage of the option") {
  for (const char* wrong : {"--slow 1", "--slow x:2", "--jitter 0.1", "--jitter 0.1:"}) {
    const Outcome outcome = shell(std::string("$RONDO train ") + wrong);
    INFO(wrong << ": " << outcome.err);
    REQUIRE(outcome.status != 0);
    REQUIRE(contains(outcome.err, contains(wrong, "slow") ? "RANK:FACTOR" : "PROBABILITY:FACTOR"));
  }
}

TEST_CASE("a sweep trains once for each line, and its page shows all runs") {
  const TemporaryFolder folder;
  const std::string file = folder.file("sweep"), json = folder.file("json");
  std::ofstream(file) << "# a comment\n\none: -p 1 --batch 20\n"
                         "two, <fast>: -p 2 --batch 40 --scale-lr 20 --scaling sqrt\r\n"
                         "again: -p 2 --accumulate 2 --batch 40 --noise-scale --optimizer lars\n"
                         "too fast: -p 2 --batch 20 --lr 1e5\n";
  const Outcome outcome = shell(
      "$RONDO train --data synthetic:shape=1x8x8,train=200,test=40 "
      "--epochs 3 --sweep " +
      file + " --report " + folder.file("out") + " --json " + json);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const auto runs = nlohmann::json::parse(readFile(json))["runs"];
  REQUIRE(runs.size() == 4);
  REQUIRE(contains(std::string(runs[3]["ended"]), "not finite"));
  REQUIRE(runs[2]["ended"] == "");
  REQUIRE(runs[0]["ranks"] == 1);
  REQUIRE(runs[1]["settings"] == "-p 2 --batch 40 --scale-lr 20 --scaling sqrt");
  for (const auto& run : {runs[0], runs[1], runs[2]}) {
    REQUIRE(run["epoch_accuracy"].size() == 3);
    REQUIRE(run["epoch_seconds"][0] > 0);
    REQUIRE(run["epoch_seconds"][2] > run["epoch_seconds"][1]);
  }
  REQUIRE(runs[1]["epoch_noise_scale"].empty());
  REQUIRE(runs[2]["epoch_noise_scale"].size() == 3);
  const std::string page = readFile(folder.file("out/index.html"));
  REQUIRE(contains(page, "two, &lt;fast&gt;"));
  REQUIRE(contains(page, "Accuracy against time"));
  REQUIRE(contains(page, "Gradient noise scale"));
  REQUIRE(contains(page, "ended: train: the loss of step"));
  REQUIRE_FALSE(contains(page, "http://"));
}

TEST_CASE("the printed loss of an epoch is that of the JSON, for every strategy") {
  const TemporaryFolder folder;
  for (const char* strategy : {"ddp", "local", "ps --consistency asp"}) {
    const Outcome outcome = shell(std::string("$RONDO train -p 2 --strategy ") + strategy +
                                  " --data synthetic:shape=1x8x8,train=1010,test=20 --batch 20 "
                                  "--epochs 2 --json " +
                                  folder.file("json"));
    INFO(strategy << ": " << outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    const auto losses = nlohmann::json::parse(readFile(folder.file("json")))["epoch_loss"];
    REQUIRE(losses.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      char line[64];
      std::snprintf(line, sizeof line, "epoch %zu/2: loss %.4f,", i + 1, losses[i].get<double>());
      REQUIRE(contains(outcome.out, line));
    }
  }
}

TEST_CASE("an elastic run that waits for ranks says so once: how many there are, and how long") {
  const Outcome outcome = shell(
      "$RONDO train -p 2 --elastic 3:4 --elastic-wait 0.5 --batch 20 --data "
      "synthetic:shape=1x8x8,train=400,test=20");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status != 0);
  const std::string line =
      "rondo train: 2 ranks are here, --elastic needs 3: waiting 0.5 s for 1 more\n";
  REQUIRE(outcome.err.starts_with(line));
  REQUIRE(!contains(outcome.err.substr(line.size()), "waiting"));
}

TEST_CASE("a rank that is only a server shows no time for computation") {
  const Outcome outcome = shell(
      "$RONDO train -p 2 --strategy ps --dedicated-servers --steps 3 --data "
      "synthetic:shape=1x8x8,train=400,test=20");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  REQUIRE(contains(outcome.out, " ms, on a rank that only serves\n"));
  REQUIRE_FALSE(contains(outcome.out, "forward"));
}

TEST_CASE("a wrong line of a sweep is named before anything is trained") {
  const TemporaryFolder folder;
  const std::string file = folder.file("sweep");
  for (const auto& [lines, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"one: -p 1\n-p 2\n", "line 2"},
           {"one: -p 1\none: -p 2\n", "line 2: there is a run \"one\" already"},
           {"# nothing\n", "no line names a run"},
           {"one: -p 1\ntwo: --batch x\n", "sweep, two: "},
           {"one: --no-such-thing\n", "sweep, one: "},
           {"one: -p 1 --data synthetic\ntwo: --strategy ps --clip 1\n",
            "sweep, two: train: strategy ps takes no clip"},
           {"one: --json file\n", "takes no --sweep, --checkpoint, --metrics, --trace, --json"},
           {"one: --results file\n", "--json, --results"},
           {"one: --metrics file\n", "takes no --sweep, --checkpoint, --metrics, --trace"},
           {"one: --checkpoint file\n", "takes no --sweep, --checkpoint"}}) {
    std::ofstream(file) << lines;
    const Outcome outcome = shell("$RONDO train --sweep " + file);
    INFO(lines << outcome.err);
    REQUIRE(outcome.status == 2);
    REQUIRE(contains(outcome.err, complaint));
    REQUIRE(outcome.out.empty());
  }
}

#endif

} // namespace rondo::test
