// Runs `rondo simulate`, `rondo plan --explain` and the exports of plans.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "model/profile_file.h"
#include "plan/registry.h"
#include "planner/stored.h"
#include "rondo/error.h"
#include "support/own_cache.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/plan_dot.h"
#include "tools/simulate_topology.h"

namespace rondo::test {
namespace {

using namespace tools;

TEST_CASE("simulate: every algorithm has a time whose terms add up, fastest first", "[simulate]") {
  const Outcome outcome = shell("$RONDO simulate allreduce -p 8 --bytes 8,16M --json");
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["ranks"] == 8);
  REQUIRE(json["rows"].size() == 16);
  double before = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto& row = json["rows"][i];
    const double us = row["us"];
    double sum = 0;
    for (const auto& [name, term] : row["terms_us"].items()) sum += term.get<double>();
    CHECK(sum == Approx(us));
    CHECK(row["algbw_gbs"].get<double>() == Approx(row["bytes"].get<double>() / us * 1e-3));
    if (i % 8 != 0) CHECK(us >= before);
    before = us;
  }
  CHECK(json["rows"][0]["mostly"] == "latency");
  CHECK(json["rows"][8]["mostly"] == "bytes");
}

TEST_CASE("simulate: the lectures' network is given by two numbers", "[simulate]") {
  const Outcome outcome =
      shell("$RONDO simulate allreduce -p 8 --algorithm ring --bytes 8M --ideal 2,1 --json");
  REQUIRE(outcome.status == 0);
  const double us = nlohmann::json::parse(outcome.out)["rows"][0]["us"];
  CHECK(us == Approx(14 * (2 + (1 << 20) * 1e-3)));
  for (const char* wrong : {"2", "2,0", "-1,1", "1,x"})
    CHECK(shell(std::string("$RONDO simulate -p 2 --ideal ") + wrong).status == 2);
}

TEST_CASE("simulate: a dead link is named, a trace has every step, wrong options are refused",
          "[simulate]") {
  const Outcome dead = shell("$RONDO simulate broadcast -p 8 --algorithm tree --dead-link 0-4");
  CHECK(dead.status == 0);
  CHECK(dead.out.find("never") != std::string::npos);
  CHECK(dead.out.find("rank 4 lane 0 step 0 waits to receive from rank 0") != std::string::npos);

  const TemporaryFolder folder;
  const std::string trace = folder.file("trace.json");
  const Outcome traced =
      shell("$RONDO simulate allreduce -p 4 --algorithm ring --bytes 64K --trace " + trace);
  REQUIRE(traced.status == 0);
  const auto json = nlohmann::json::parse(readFile(trace));
  CHECK(json["traceEvents"].size() == 4 * 7); // 7 steps of each rank, one tile
  std::set<int> ranks;
  for (const auto& event : json["traceEvents"]) ranks.insert(event["pid"].get<int>());
  CHECK(ranks.size() == 4);

  const std::pair<const char*, const char*> refused[] = {
      {"--straggler 1:5", "RANK=MICROSECONDS"},
      {"--straggler 9=5", "there is no rank 9"},
      {"--slow-link 0-1=0", "factor > 0"},
      {"--link wifi", "valid: inproc shm loopback"},
      {"--layout 3x2", "rank"},
      {"--trace /tmp/t", "one algorithm"}};
  for (const auto& [options, text] : refused) {
    const Outcome outcome = shell(std::string("$RONDO simulate allreduce -p 4 ") + options);
    INFO(options << ": " << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(text) != std::string::npos);
  }
  std::ofstream(folder.file("p.json")) << "{\n\"rondo_profile\": 7}";
  const Outcome outdated =
      shell("$RONDO simulate allreduce -p 4 --profile " + folder.file("p.json"));
  CHECK(outdated.status == 3);
  CHECK(outdated.err.find("p.json:2: version 7 is not 1") != std::string::npos);
}

// Proves: each step and each message is one event, and both outputs tell the number.
TEST_CASE("simulate: says how many events it simulated", "[simulate]") {
  // Each of 4 ranks does 7 steps and gets 6 messages. A straggler keeps one from standing for all.
  const std::string call =
      "$RONDO simulate allreduce -p 4 --algorithm ring --bytes 64K --straggler 0=x2";
  const Outcome json = shell(call + " --json"), table = shell(call);
  REQUIRE(json.status == 0);
  const auto row = nlohmann::json::parse(json.out)["rows"][0];
  CHECK(row["messages"] == 4 * 6);
  CHECK(row["events"] == 4 * 7 + 4 * 6);
  CHECK(row["processor_s"].contains("plans"));
  CHECK(row["processor_s"].contains("events"));
  CHECK(table.out.find("\n52 events in ") != std::string::npos);
  CHECK(table.out.find("; building the plans took ") != std::string::npos);
  const Outcome formula = shell("$RONDO simulate -p 131072 --algorithm ring");
  CHECK(formula.out.find(" events ") == std::string::npos);
}

TEST_CASE("simulate: a trace tells steps of a nanosecond apart, however late they are",
          "[simulate]") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("trace.json");
  const Outcome traced = shell(
      "$RONDO simulate allreduce -p 4 --algorithm ring --bytes 64K --straggler 0=12345678 "
      "--trace " +
      trace);
  REQUIRE(traced.status == 0);
  std::set<double> times;
  const auto json = nlohmann::json::parse(readFile(trace));
  for (const auto& event : json["traceEvents"])
    if (event["pid"] == 0) times.insert(event["ts"].get<double>());
  CHECK(times.size() == 7);
}

TEST_CASE("simulate: calls without bytes, without messages and too large ones have a row",
          "[simulate]") {
  const auto rowOf = [](const std::string& options) {
    const Outcome outcome = shell("$RONDO simulate " + options + " --json");
    INFO(options << ": " << outcome.err);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.out)["rows"][0];
  };
  const auto barrier = rowOf("barrier -p 4 --bytes 1M");
  CHECK(barrier["bytes"] == 0);
  CHECK(barrier["algbw_gbs"] == 0);
  CHECK(rowOf("allreduce -p 1 --in-place --bytes 8 --ideal 1,1")["algbw_gbs"] == 0);
  const auto large = rowOf("allreduce -p 65536 --algorithm oneshot --bytes 8 --ideal 1,1");
  CHECK(large["too_large"].get<std::string>() == "more than 50 million blocks to send");
  const Outcome table = shell("$RONDO simulate allreduce -p 2 --algorithm ring --bytes 8,1000T");
  CHECK(table.status == 0);
  CHECK(table.out.find("is not simulated: more than 200 million messages") != std::string::npos);
}

TEST_CASE("simulate: a million ranks have the time of the formula, and the output says so",
          "[simulate]") {
  const std::string call = "$RONDO simulate allreduce -p 1000000 --bytes 1M --ideal 1,1 ";
  const Outcome table = shell(call);
  CHECK(table.status == 0);
  CHECK(table.out.find("ring of 1M is not simulated: more than 65536 ranks. Its time is from the "
                       "formula of the algorithm") != std::string::npos);
  const auto json = nlohmann::json::parse(shell(call + "--algorithm ring --json").out);
  const double each = 1e-6 + 1048576 / 1e6 * 1e-9;
  CHECK(json["rows"][0]["formula_us"].get<double>() == Approx(2 * 999999 * each * 1e6));
  CHECK(shell("$RONDO simulate -p 1048577").status == 2);
  CHECK(shell("$RONDO simulate -p 131072 --layout 16384x8 --algorithm ring --ideal 1,1").status ==
        0);
}

TEST_CASE("simulate: imported plans take as long as the plans that were exported", "[simulate]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ring.xml");
  REQUIRE(shell("$RONDO plan allreduce -p 5 --algorithm ring --msccl " + file).status == 0);
  const std::string options = " --bytes 1M --ideal 2,3 --json";
  const auto timeOf = [&](const std::string& what) {
    const Outcome outcome = shell("$RONDO simulate " + what + options);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const auto json = nlohmann::json::parse(outcome.out);
    CHECK(json["ranks"] == 5);
    return json["rows"][0]["us"].get<double>();
  };
  CHECK(timeOf("--import " + file) == Approx(timeOf("allreduce -p 5 --algorithm ring")));
  const Outcome shown = shell("$RONDO plan --import " + file);
  CHECK(shown.status == 0);
  CHECK(shown.out.find("ring: allreduce, proved") == 0);
  CHECK(countOf(shown.out, "recv+reduce") == 5 * 4);

  std::ofstream(folder.file("bad.xml")) << "<algo coll=\"allreduce\"\n>";
  for (const char* command : {"simulate", "plan"}) {
    const Outcome refused =
        shell(std::string("$RONDO ") + command + " --import " + folder.file("bad.xml"));
    CHECK(refused.status == 2);
    CHECK(refused.err.find("bad.xml:2: the file ends inside <algo>") != std::string::npos);
  }
  CHECK(shell("$RONDO simulate --import /nowhere.xml").err.find("/nowhere.xml: No such file") !=
        std::string::npos);
}

TEST_CASE("simulate: a topology gives places, kinds and speeds of links", "[simulate]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("pair.xml");
  const auto write = [&](const std::string& nvlink) {
    std::string text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\">\n";
    for (const char* bus : {"0001", "0002"})
      text += std::string("<pci busid=\"") + bus +
              ":00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
              "<gpu dev=\"0\" sm=\"80\">" +
              nvlink + "</gpu></pci>\n";
    std::ofstream(file) << text
                        << "<nic><net name=\"eth0\" speed=\"100000\"/></nic></cpu></system>";
  };
  const auto placed = [&](int nodes, int ranks, const NetworkConfig& options = {}) {
    PlannedNetwork network{.profile = model::defaultProfile(), .conditions = {}};
    const plan::Layout layout = placeOn(file, nodes, ranks, options, network);
    CHECK(layout == (ranks > 2 ? plan::parseLayout("2x2") : plan::Layout{}));
    return network;
  };
  const auto speed = [](const PlannedNetwork& network, model::LinkClass kind) {
    return 1 / network.profile.link(kind).wire(1e9);
  };
  NetworkConfig shm;
  shm.link = "shm";
  write("<nvlink target=\"x\" count=\"12\" tclass=\"0x068000\"/>");
  CHECK(placed(1, 2).inside == model::LinkClass::nvlink);
  CHECK(speed(placed(1, 2), model::LinkClass::nvlink) == Approx(300));
  CHECK(placed(1, 2, shm).inside == model::LinkClass::shm);
  write("");
  CHECK(placed(1, 2).inside == model::LinkClass::pcie);
  CHECK(speed(placed(1, 2), model::LinkClass::pcie) == Approx(16.0 * 2 * 128 / 130));
  CHECK(speed(placed(2, 4), model::LinkClass::network) == Approx(12.5));
  CHECK(shell("$RONDO simulate allreduce -p 4 --nodes 2 --algorithm ring --topology " + file)
            .status == 0);
  CHECK(
      shell("$RONDO simulate -p 131072 --nodes 65536 --algorithm ring --topology " + file).status ==
      0);

  const Outcome few = shell("$RONDO simulate -p 3 --topology " + file);
  CHECK(few.status == 2);
  CHECK(few.err.find("pair.xml: 1 machine has 2 GPUs for 3 ranks; --nodes") != std::string::npos);
  write("<nvlink target=\"x\" count=\"0\"/>");
  CHECK(shell("$RONDO simulate -p 2 --topology " + file).err.find("pair.xml:2: ") !=
        std::string::npos);
}

TEST_CASE("simulate: speeds that are zero or no numbers, and sizes that overflow, are refused",
          "[simulate]") {
  const std::pair<const char*, const char*> refused[] = {
      {"--ideal 1,0", "the speed must be above 0"},
      {"--ideal 1,nan", "MICROSECONDS,GB/s"},
      {"--ideal 1,inf", "MICROSECONDS,GB/s"},
      {"--ideal nan,1", "MICROSECONDS,GB/s"},
      {"--bytes 99999999T", "99999999T"},
      {"--bytes 18446744073709551616", "18446744073709551616"},
      {"--bytes 16000000T", " bytes is too large"},
      {"--straggler 0=nan", "RANK="},
      {"--slow-link 0-1=nan", "FROM-TO"},
      {"--layout 1x2", "rank"}};
  for (const auto& [options, text] : refused) {
    const Outcome outcome =
        shell(std::string("$RONDO simulate allreduce -p 4 --algorithm ring ") + options);
    INFO(options << ": " << outcome.err << outcome.out);
    CHECK(outcome.status == 2);
    CHECK((outcome.err + outcome.out).find(text) != std::string::npos);
  }
  const TemporaryFolder folder;
  std::string text = model::profileText(model::defaultProfile());
  const auto at = text.find("\"wire\": [");
  REQUIRE(at != std::string::npos);
  text.replace(at, 10, "\"wire\": [[0, 0], ");
  std::ofstream(folder.file("zero.json")) << text;
  const Outcome zero = shell("$RONDO simulate -p 2 --profile " + folder.file("zero.json"));
  INFO(zero.err);
  CHECK(zero.status == 3);
  CHECK(zero.err.find("zero.json:") != std::string::npos);
}

TEST_CASE("plan: a table and --explain predict the same time for blocks that are cut",
          "[simulate]") {
  const std::string call = "$RONDO plan allgather -p 7 --bytes 40 --ideal 0,1";
  for (const char* option : {"", " --explain"}) {
    const Outcome outcome = shell(call + option);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("0.0343 us") != std::string::npos); // 6 blocks of 40/7 bytes
  }
}

TEST_CASE("plan --explain: names the rule that decides", "[simulate]") {
  const Outcome agreed = shell("$RONDO plan allreduce -p 2 --bytes 1M --explain");
  CHECK(agreed.status == 0);
  CHECK(agreed.out.find("* the planner chooses direct, by the rule for blocks of more than 32K.") !=
        std::string::npos);
  CHECK(agreed.out.find("is predicted to be the fastest") != std::string::npos);
  CHECK(agreed.out.find("With RONDO_PLANNER=model it would use ") != std::string::npos);
}

// Proves: the text does not claim that the model chooses where it has no table.
TEST_CASE("plan --explain: says that the model leaves many ranks to the rules", "[simulate]") {
  for (const char* planner : {"rules", "model"}) {
    const Outcome outcome = shell(std::string("RONDO_PLANNER=") + planner +
                                  " $RONDO plan allreduce -p 17 --bytes 1M --explain");
    INFO(outcome.out);
    CHECK(outcome.out.find("RONDO_PLANNER=model leaves calls of more than 16 ranks to the rules") !=
          std::string::npos);
    CHECK(outcome.out.find("it would use") == std::string::npos);
  }
  const std::string chosen = "RONDO_ALGO=tree $RONDO plan allreduce -p 17 --bytes 1M --explain";
  CHECK(shell(chosen).out.find("RONDO_PLANNER=model") == std::string::npos);
  const auto read = nlohmann::json::parse(shell(chosen + " --json").out);
  CHECK(read["calls"][0]["model"].is_null());
}

// Proves: what deterministic mode must know of an algorithm's plans is found out once, and not for
// each size and choice.
TEST_CASE("plan --explain: builds all plans of an algorithm once", "[simulate]") {
  const Outcome outcome = shell(
      "RONDO_DETERMINISTIC=1 RONDO_DEBUG=trace $RONDO plan allreduce -p 17 --bytes 8,64K,1M "
      "--explain");
  REQUIRE(outcome.status == 0);
  for (const char* algorithm : {"oneshot", "direct", "ring", "tree"}) {
    INFO(algorithm);
    CHECK(countOf(outcome.err, std::string("builds all plans of ") + algorithm + " for ") == 1);
  }
}

TEST_CASE("plan --explain: names the winner's reason and a disagreement", "[simulate]") {
  // Where a message costs a second and bytes cost nothing, one round is best, whatever the rules
  // say about large calls.
  model::Profile profile = model::defaultProfile();
  profile.machine = "elsewhere";
  for (auto& link : profile.links) {
    link->alpha = 1;
    link->slot_bytes = 1 << 30;
  }
  const TemporaryFolder folder;
  std::ofstream(folder.file("p.json")) << model::profileText(profile);
  const Outcome disagreed =
      shell("$RONDO plan allreduce -p 8 --bytes 1M --explain --profile " + folder.file("p.json"));
  CHECK(disagreed.status == 0);
  CHECK(disagreed.out.find("oneshot is predicted to be the fastest, because") != std::string::npos);
  CHECK(disagreed.out.find("the call uses direct, which is predicted to take 100% longer") !=
        std::string::npos);
  CHECK(disagreed.out.find("on latency.") != std::string::npos);
  CHECK(disagreed.out.find("With RONDO_PLANNER=model it would use oneshot.") != std::string::npos);
  const Outcome by_model = shell(
      "RONDO_PLANNER=model $RONDO plan allreduce -p 8 --bytes 1M "
      "--explain --profile " +
      folder.file("p.json"));
  CHECK(by_model.out.find("* the planner chooses oneshot, by the model") != std::string::npos);
  CHECK(by_model.out.find("With RONDO_PLANNER=rules it would use direct.") != std::string::npos);
  const Outcome json = shell("$RONDO plan allreduce -p 8 --bytes 8,1M --explain --json --profile " +
                             folder.file("p.json"));
  const auto read = nlohmann::json::parse(json.out);
  REQUIRE(read["calls"].size() == 2);
  CHECK(read["calls"][1]["bytes"] == 1 << 20);
  CHECK(read["calls"][1]["rules"] == "direct");
  CHECK(read["calls"][1]["model"] == "oneshot");
  CHECK(read["calls"][1]["candidates"][0]["algorithm"] == "oneshot");
  CHECK(read["calls"][1]["candidates"][0]["seconds"] > 1);
  CHECK(disagreed.err.find("was made on another machine (elsewhere") != std::string::npos);

  // As in a job, RONDO_PROFILE names the profile.
  const Outcome by_variable = shell("RONDO_PROFILE=" + folder.file("p.json") +
                                    " $RONDO plan allreduce -p 8 --bytes 1M --explain");
  CHECK(by_variable.out == disagreed.out);
  CHECK(shell("RONDO_PROFILE=/no/file $RONDO plan allreduce -p 8 --explain").status != 0);

  // A rule for smaller blocks, and one that names another algorithm, are not the rule that decided.
  const Outcome small = shell("$RONDO plan allreduce -p 4 --bytes 64K --explain");
  CHECK(
      small.out.find("* the planner chooses direct, by the rule for blocks of more than 32K.\n") !=
      std::string::npos);
  const Outcome ordered =
      shell("RONDO_DETERMINISTIC=1 $RONDO plan allreduce -p 8 --bytes 16M --explain --layout 4x2");
  CHECK(ordered.out.find("* the planner chooses direct, by the rule for sockets, blocks of more "
                         "than 8K; hierarchical does not reduce in rank order") !=
        std::string::npos);
  const Outcome nodes = shell("$RONDO plan allreduce -p 8 --bytes 16M --explain --layout 4x2");
  CHECK(nodes.out.find(
            "* the planner chooses hierarchical: several nodes have several ranks, and blocks "
            "have 2M or more.") != std::string::npos);
}

TEST_CASE("plan: uses the stored profile as jobs do, and says when it does not", "[simulate]") {
  const OwnCache cache;
  model::Profile profile = model::defaultProfile();
  profile.name = "stored";
  profile.machine = model::machineKey();
  const std::string plan = "$RONDO plan allreduce -p 2 --bytes 1M --explain";
  REQUIRE(planner::replaceFile(planner::profilePath(), model::profileText(profile)));
  CHECK(countOf(shell(plan).out, "Predicted with profile 'stored'") == 1);
  for (const char* text : {"{", "{}"}) {
    REQUIRE(planner::replaceFile(planner::profilePath(), text));
    const Outcome damaged = shell(plan);
    CHECK(countOf(damaged.out, "Predicted with profile 'default'") == 1);
    CHECK(countOf(damaged.err, "the default profile is used") == 1);
  }
  profile.machine = "elsewhere";
  REQUIRE(planner::replaceFile(planner::profilePath(), model::profileText(profile)));
  CHECK(countOf(shell(plan).out, "Predicted with profile 'default'") == 1);
}

TEST_CASE("plan: a table and --explain obey RONDO_ALGO and RONDO_DETERMINISTIC, as calls do",
          "[simulate]") {
  const std::string plan = " $RONDO plan allreduce -p 8 --bytes 1M";
  const Outcome table = shell("RONDO_ALGO=tree" + plan);
  INFO(table.out << table.err);
  CHECK(countOf(table.out, " *\n") == 1);
  CHECK(std::ranges::any_of(linesOf(table.out), [](const std::string& line) {
    return line.starts_with("  tree ") && line.ends_with(" us *");
  }));
  CHECK(countOf(table.out, "* chosen by RONDO_ALGO if") == 1);

  const Outcome explained = shell("RONDO_ALGO=tree" + plan + " --explain");
  CHECK(countOf(explained.out, "* RONDO_ALGO chooses tree.\n") == 1);
  CHECK(countOf(explained.out, "\nWithout RONDO_ALGO it would use direct, or with ") == 1);
  const Outcome json = shell("RONDO_ALGO=tree" + plan + " --explain --json");
  CHECK(nlohmann::json::parse(json.out)["calls"][0]["decided_by"] == "RONDO_ALGO");
  const Outcome nccl = shell("NCCL_ALGO=Tree" + plan + " --explain --json");
  CHECK(nlohmann::json::parse(nccl.out)["calls"][0]["decided_by"] == "NCCL_ALGO");

  // An exclusion leaves the choice to the planner.
  const Outcome rest = shell("NCCL_ALGO='^nvls'" + plan + " --explain");
  CHECK(countOf(rest.out, "* the planner chooses direct, by the rule for") == 1);

  const Outcome wrong = shell("RONDO_ALGO=rnig" + plan);
  CHECK(wrong.status == 2);
  CHECK(countOf(wrong.err, "unknown algorithm 'rnig'") == 1);
  const Outcome ordered = shell("RONDO_DETERMINISTIC=1 RONDO_ALGO=ring" + plan);
  CHECK(countOf(ordered.err, "ring does not reduce in rank order") == 1);
}

TEST_CASE("plan: a table and --explain follow RONDO_RULES_FILE, and refuse a damaged file",
          "[simulate]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.csv");
  std::ofstream(file) << "collective,min_bytes,ranks,algorithm\n"
                         "allreduce,1M,8,nvls\n"
                         "allreduce,1M,8,ring\n"
                         "allgather,1M,7,bruck\n";
  const std::string plan = "RONDO_RULES_FILE=" + file + " $RONDO plan ";
  const Outcome explained = shell(plan + "allreduce -p 8 --bytes 512K,1M --explain");
  INFO(explained.out << explained.err);
  CHECK(explained.status == 0);
  CHECK(countOf(explained.out,
                "* the planner chooses direct, by the rule for blocks of more than "
                "8K and up to 4M.\n") == 1);
  CHECK(countOf(explained.out, "* the planner chooses ring, by the rules file: " + file + ":3\n") ==
        1);
  CHECK(countOf(explained.out, " Passed over: " + file + ":2: nvls needs a switch") == 1);
  CHECK(countOf(explained.out,
                "\nWithout the rules file it would use direct, or with RONDO_PLANNER=model ") == 1);

  const Outcome json = shell(plan + "allreduce -p 8 --bytes 1M --explain --json");
  const auto call = nlohmann::json::parse(json.out)["calls"][0];
  CHECK(call["algorithm"] == "ring");
  CHECK(call["decided_by"] == "rules file " + file + ":3");
  CHECK(call["rules"] == "direct");

  const Outcome table = shell(plan + "allgather -p 7 --bytes 1M"); // not a multiple of 7 blocks
  CHECK(std::ranges::any_of(linesOf(table.out), [](const std::string& line) {
    return line.starts_with("  bruck") && line.ends_with(" us *");
  }));

  std::ofstream(file, std::ios::app) << "allreduce,1M,8,rnig\n";
  const Outcome refused = shell(plan + "allreduce -p 8 --bytes 1M --explain");
  CHECK(refused.status == 3);
  CHECK(refused.err.find(file + ":5: unknown algorithm 'rnig'") != std::string::npos);
}

TEST_CASE("the algorithm of each shape is logged once, by one rank", "[simulate]") {
  const Outcome outcome = shell(
      "RONDO_ALGO= RONDO_DEBUG=info $RONDO bench allreduce -p 3 -b 8 -e 8 -n 20 -w 5 --transport "
      "tcp");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(countOf(outcome.out + outcome.err, "AllReduce of 2 float uses ") == 1);
}

TEST_CASE("exports: the graph has a box for each step and an edge for each message", "[export]") {
  const plan::Spec spec{.collective = Collective::broadcast, .ranks = 4};
  const std::string text = dotText(*plan::findAlgorithm("tree"), spec);
  CHECK(countOf(text, "subgraph cluster_") == 4);
  CHECK(countOf(text, "[label=") == 4);
  CHECK(countOf(text, " -> ") == 3);
  CHECK(text.find("copy+send") != std::string::npos);
  CHECK(text.find("recv+store") != std::string::npos);
  const TemporaryFolder folder;
  const Outcome outcome = shell("$RONDO plan broadcast -p 4 --algorithm tree --dot " +
                                folder.file("g.dot") + " --goal " + folder.file("g.goal"));
  CHECK(outcome.status == 0);
  CHECK(readFile(folder.file("g.dot")) == text);
  CHECK(countOf(readFile(folder.file("g.goal")), "send 1048576b to ") == 3);
  const Outcome refused =
      shell("$RONDO plan broadcast -p 4 --root 9 --algorithm tree --goal " + folder.file("r.goal"));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("with root 9") != std::string::npos);
}

} // namespace
} // namespace rondo::test
