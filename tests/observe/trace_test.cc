// Traces: what they contain, that ranks' clocks agree in them, and that a job outlives their disk.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "observe/recorder.h"
#include "observe/trace.h"
#include "rondo/communicator.h"
#include "support/paths.h"
#include "support/ranks.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using namespace observe;
using nlohmann::json;

std::vector<std::string> filesOf(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The events with this category, or all metadata with this name.
std::vector<json> eventsOf(const json& all, const std::string& category) {
  std::vector<json> found;
  for (const json& event : all)
    if (event.value("cat", "") == category || (event["ph"] == "M" && event["name"] == category))
      found.push_back(event);
  return found;
}

double endOf(const json& span) { return span["ts"].get<double>() + span["dur"].get<double>(); }

/// Spans of a lane must not overlap.
void requireLanes(const json& all) {
  std::map<std::pair<int, int>, std::vector<json>> lanes;
  std::map<std::pair<int, int>, std::string> names;
  for (const json& event : all) {
    const std::pair lane(event["pid"].get<int>(), event["tid"].get<int>());
    if (event["ph"] == "X") lanes[lane].push_back(event);
    if (event["name"] == "thread_name") names[lane] = event["args"]["name"];
  }
  for (auto& [lane, spans] : lanes) {
    INFO("lane " << lane.second << " of rank " << lane.first);
    REQUIRE(names.contains(lane));
    std::sort(spans.begin(), spans.end(), [](const json& a, const json& b) {
      return a["ts"].get<double>() < b["ts"].get<double>();
    });
    for (std::size_t i = 1; i < spans.size(); ++i)
      REQUIRE(endOf(spans[i - 1]) <= spans[i]["ts"].get<double>() + 0.002); // rounded
  }
}

/// No rank ends an all-reduce before the last one has begun it, in microseconds: by how much the
/// trace says otherwise.
double worstOrder(const json& all) {
  std::map<std::uint64_t, std::pair<double, double>> calls; // last begin, first end
  for (const json& call : eventsOf(all, "call")) {
    auto& [begin, end] =
        calls.try_emplace(call["args"]["sequence"].get<std::uint64_t>(), -1e18, 1e18).first->second;
    begin = std::max(begin, call["ts"].get<double>());
    end = std::min(end, endOf(call));
  }
  double worst = 0;
  for (const auto& [sequence, times] : calls) worst = std::max(worst, times.first - times.second);
  return worst;
}

double clockErrors(const json& all) {
  double sum = 0;
  for (const json& head : eventsOf(all, "rondo trace"))
    sum = std::max(sum, head["args"].at("clock_error_ns").get<double>() * 2e-3);
  return sum;
}

std::string run(int ranks, const std::string& arguments, const std::string& wrapper = "") {
  return "RONDO_TRACE=traces $RONDO run -p " + std::to_string(ranks) + " -- " + wrapper +
         RONDO_TEST_PROGRAMS "/program_traced " + arguments + "\n";
}

TEST_CASE("a trace has every call of every rank, with its arguments, in lanes without overlap") {
  for (const int size : {1, 3}) {
    const TemporaryFolder folder;
    Options options = plainOptions();
    options.trace_folder = folder.file("new");
    {
      auto ranks = Communicator::createAll(size, options);
      const auto complaints = onRanks(ranks, [&](Communicator& comm) -> std::string {
        if (!comm.tracing()) return "no trace";
        std::vector<float> data(5);
        for (int i = 0; i < 10; ++i)
          comm.allReduce(data.data(), data.data(), 5, DataType::float32, ReduceOp::max);
        std::vector<int> numbers(40);
        std::vector<Work> works;
        for (std::size_t i = 0; i < 40; ++i) // in flight together
          works.push_back(
              comm.broadcastAsync(&numbers[i], &numbers[i], 1, DataType::int32, comm.size() - 1));
        for (Work& work : works) work.wait();
        auto part = comm.split(comm.rank() % 2, 0);
        part->barrier();
        const auto now = std::chrono::steady_clock::now();
        comm.trace({"own", "a \"span\"", now, now + std::chrono::microseconds(7), 3, 9});
        return {};
      });
      REQUIRE(firstComplaint(complaints).empty());
    }
    const auto files = filesOf(folder.file("new"));
    REQUIRE(static_cast<int>(files.size()) == size);
    for (int rank = 0; rank < size; ++rank) {
      const json all = json::parse(readFile(files[static_cast<std::size_t>(rank)]));
      requireLanes(all);
      const auto heads = eventsOf(all, "rondo trace");
      REQUIRE(heads.size() == 1);
      CHECK(heads[0]["args"]["rank"] == rank);
      CHECK(heads[0]["args"]["size"] == size);
      CHECK((rank > 0) == (heads[0]["args"]["clock_error_ns"].get<int>() > 0));
      CHECK(eventsOf(all, "end of rondo trace")[0]["args"] == json{{"calls", 51}, {"left_out", 0}});
      std::map<std::string, int> names;
      for (const json& call : eventsOf(all, "call")) {
        CHECK(call["pid"] == rank);
        CHECK(call["ts"].get<double>() > 0);
        if (names[call["name"]]++ == 0 && call["name"] == "AllReduce") {
          CHECK(call["args"]["bytes"] == 20);
          CHECK(call["args"]["op"] == "max");
          CHECK(call["args"].contains("algorithm"));
        }
        if (call["name"] == "Broadcast") CHECK(call["args"]["root"] == size - 1);
      }
      CHECK(names ==
            std::map<std::string, int>{{"AllReduce", 10}, {"Barrier", 1}, {"Broadcast", 40}});
      const auto own = eventsOf(all, "program");
      REQUIRE(own.size() == 1);
      CHECK(own[0]["name"] == "a \"span\"");
      CHECK(own[0]["args"] == json{{"step", 3}, {"bytes", 9}});
      CHECK(std::abs(own[0]["dur"].get<double>() - 7) < 0.01);
    }
  }
}

// Proves: the messages that compare the clocks are not held back by the Group.
TEST_CASE("a communicator that is made inside a Group has a trace, of the Group's calls only") {
  const TemporaryFolder folder;
  Options options = plainOptions();
  options.trace_folder = folder.file("t");
  const Rendezvous meet = Rendezvous::inProcess(2);
  const auto run = [&](int rank) {
    int sum = 0;
    const int one = 1;
    Group group;
    Communicator comm = Communicator::create(meet.as(rank), options);
    comm.allReduce(&one, &sum, 1, DataType::int32, ReduceOp::sum);
    group.end();
    return sum;
  };
  auto other = std::async(std::launch::async, run, 1);
  CHECK(run(0) == 2);
  CHECK(other.get() == 2);
  const auto files = filesOf(folder.file("t"));
  REQUIRE(files.size() == 2);
  for (const std::string& file : files) {
    const json all = json::parse(readFile(file));
    CHECK(eventsOf(all, "end of rondo trace").at(0)["args"]["calls"] == 1);
    CHECK(std::abs(eventsOf(all, "call").at(0)["ts"].get<double>()) < 600e6);
  }
}

// Proves: neither file is overwritten, and the report tells the communicators apart.
TEST_CASE("two communicators that a job makes apart have files of their own") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") + "\n" + run(2, "twice 20") + "$RONDO report --trace traces");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(filesOf(folder.file("traces")).size() == 5);
  CHECK(outcome.out.find("2 of 2 ranks, 40 calls") != std::string::npos);
  const std::size_t at = outcome.out.find("also here: job ");
  REQUIRE(at != std::string::npos);
  const std::string job = outcome.out.substr(at + 15, 33);
  const Outcome second = shell("$RONDO report --trace " + folder.file("traces") + " --job " + job);
  INFO(second.out << second.err);
  CHECK(second.status == 0);
  CHECK(second.out.find("job " + job + ": 2 of 2 ranks, 40 calls") != std::string::npos);
}

TEST_CASE("without RONDO_TRACE there is no trace") {
  auto ranks = Communicator::createAll(1, plainOptions());
  CHECK_FALSE(ranks[0].tracing());
  ranks[0].trace({"lane", "span", {}, {}});
}

TEST_CASE("a trace with more calls than can be written counts those that it leaves out") {
  const TemporaryFolder folder;
  constexpr std::uint64_t kCalls = 500'000;
  {
    Recorder recorder({7, 8, 0, 1, "self"});
    const auto trace = Trace::open(folder.file("t"), recorder.identity());
    trace->begin({});
    Trace::follow(trace, recorder);
    const Shape shape{.collective = Collective::allreduce, .type = DataType::float32};
    for (std::uint64_t i = 1; i <= kCalls; ++i)
      recorder.begin({shape.packed(), 1}, i, true).end(false);
  }
  const json all = json::parse(readFile(filesOf(folder.file("t")).at(0)));
  const json facts = eventsOf(all, "end of rondo trace").at(0)["args"];
  CHECK(facts["calls"].get<std::uint64_t>() + facts["left_out"].get<std::uint64_t>() == kCalls);
  CHECK(facts["calls"].get<std::uint64_t>() == eventsOf(all, "call").size());
}

TEST_CASE("rondo report --trace: one file, whose ranks' clocks agree as well as it says") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") + "\n" + run(4, "spans 500") + "$RONDO report --trace traces");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.out.find("4 of 4 ranks, 2000 calls: traces/trace.json") != std::string::npos);
  CHECK(outcome.out.find("the ranks' clocks agree within ") != std::string::npos);
  const json all = json::parse(readFile(folder.file("traces/trace.json")))["traceEvents"];
  CHECK(eventsOf(all, "call").size() == 2000);
  requireLanes(all);
  CHECK(worstOrder(all) <= clockErrors(all));
  // Every call is inside the span that the program put around it.
  std::map<std::pair<int, int>, json> spans;
  for (const json& span : eventsOf(all, "program"))
    spans[{span["pid"].get<int>(), span["args"]["step"].get<int>() + 1}] = span;
  REQUIRE(spans.size() == 2000);
  for (const json& call : eventsOf(all, "call")) {
    const json& span = spans[{call["pid"].get<int>(), call["args"]["sequence"].get<int>()}];
    REQUIRE(span["ts"].get<double>() <= call["ts"].get<double>() + 1);
    REQUIRE(endOf(span) + 1 >= endOf(call));
  }
}

TEST_CASE("a trace's clocks agree where the machines' clocks differ by 1000 seconds") {
  if (shell("unshare --time --monotonic 1000 --fork true").status != 0) {
    WARN("not run: it needs root, for namespaces of time");
    return;
  }
  const TemporaryFolder folder;
  const Outcome outcome = shell("cd " + folder.file("") +
                                "\ncat >later <<'END'\n#!/bin/sh\n[ $RONDO_RANK = 1 ] && exec "
                                "unshare --time --monotonic 1000 "
                                "--fork \"$@\"\nexec \"$@\"\nEND\nchmod +x later\n" +
                                run(3, "plain 200", "./later ") + "$RONDO report --trace traces");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const json all = json::parse(readFile(folder.file("traces/trace.json")))["traceEvents"];
  std::map<int, double> offsets;
  for (const json& head : eventsOf(all, "rondo trace"))
    offsets[head["pid"].get<int>()] = head["args"]["clock_offset_ns"].get<double>();
  CHECK(std::abs(offsets[1] - offsets[0] + 1e12) < 1e9);
  CHECK(std::abs(offsets[2] - offsets[0]) < 1e9);
  CHECK(eventsOf(all, "call").size() == 600);
  CHECK(worstOrder(all) <= clockErrors(all));
}

TEST_CASE("a trace is whole when its program leaks the communicator, or forks") {
  // One rank leaks: for another one, still in its last call, it would have died.
  const std::map<std::string, int> modes{{"leaks", 1}, {"forks", 2}};
  for (const auto& [mode, ranks] : modes) {
    const TemporaryFolder folder;
    // Both leave memory behind on purpose; a forked child cannot free what the parent's threads
    // use.
    const Outcome outcome =
        shell("cd " + folder.file("") + "\nexport ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS\n" +
              run(ranks, mode + " 3000") + "$RONDO report --trace traces");
    INFO(mode << ": " << outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    const std::string all = std::to_string(ranks);
    CHECK(outcome.out.find(all + " of " + all + " ranks, " + std::to_string(ranks * 3000)) !=
          std::string::npos);
  }
}

TEST_CASE("a full disk ends the trace, which the log says once, and the job goes on") {
  const TemporaryFolder folder;
  const std::string begin = "unshare -m sh -c 'mkdir " + folder.file("traces") +
                            " && mount -t tmpfs -o size=64k none " + folder.file("traces");
  if (shell(begin + "'").status != 0) {
    WARN("not run: it needs root, to mount a small file system");
    return;
  }
  const Outcome outcome =
      shell("cd " + folder.file("") + "\nrmdir traces\nexport RONDO\n" + begin + "\n" +
            run(1, "plain 30000") + "echo status $?\n$RONDO report --trace traces -o whole.json'");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.find("status 0\n") != std::string::npos);
  CHECK(outcome.status == 1); // calls are missing
  CHECK(countOf(outcome.err, "ends here, and the job goes on: No space left") == 1);
  const json all = json::parse(readFile(folder.file("whole.json")))["traceEvents"];
  const std::size_t calls = eventsOf(all, "call").size();
  CHECK(calls < 30000);
}

TEST_CASE("a trace does not overwrite a file") {
  const TemporaryFolder folder;
  const Identity who{7, 8, 0, 1, "self"};
  CHECK(Trace::open(folder.file("t"), who)->writes());
  CHECK_FALSE(Trace::open(folder.file("t"), who)->writes());
}

TEST_CASE("only its user may read a trace") {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  CHECK(Trace::open(folder.file("t"), {7, 8, 0, 1, "self"})->writes());
  constexpr perms kOthers = perms::group_all | perms::others_all;
  const std::string file = filesOf(folder.file("t")).at(0);
  CHECK((std::filesystem::status(folder.file("t")).permissions() & kOthers) == perms::none);
  CHECK((std::filesystem::status(file).permissions() & kOthers) == perms::none);
}

TEST_CASE("a folder that cannot be written: the job runs without a trace, and says so") {
  const Outcome outcome = shell("RONDO_TRACE=/nowhere/x $RONDO run -p 2 -- " RONDO_TEST_PROGRAMS
                                "/program_traced plain 10");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(countOf(outcome.err, "RONDO_TRACE: no trace can be written to /nowhere/x") == 2);
}

TEST_CASE("rondo report --trace refuses what is no trace, and says what is missing") {
  const TemporaryFolder folder;
  const Outcome made = shell("cd " + folder.file("") + "\n" + run(2, "plain 50"));
  REQUIRE(made.status == 0);
  const auto files = filesOf(folder.file("traces"));
  REQUIRE(files.size() == 2);
  const std::string whole = readFile(files[1]);
  const auto report = [&](const std::string& text) {
    std::ofstream(files[1]) << text;
    return shell("$RONDO report --trace " + folder.file("traces"));
  };
  CHECK(report(whole).status == 0);
  const auto changed = [&](const std::string& from, const std::string& to) {
    return std::string(whole).replace(whole.find(from), from.size(), to);
  };
  const struct {
    const char* what;
    std::string text;
    const char* finding;
  } cases[] = {
      {"cut in a line", whole.substr(0, whole.size() / 2), "is not an event of a trace"},
      {"cut after a line", whole.substr(0, whole.find('\n', whole.size() / 2) + 1),
       "rank 1 did not end its trace"},
      {"empty", "", "its head is missing"},
      {"garbage", "\x01\x02\n\xff", "line 1 is not an event of a trace"},
      {"another rank's", readFile(files[0]), "its rank has another file"},
      {"another version's", changed("\"version\":1", "\"version\":2"), "it is of another version"},
      {"another job's", changed("\"job\":\"", "\"job\":\"0"), "it is of another job"},
      {"of a negative rank", changed("\"rank\":1", "\"rank\":-1"), "rank -1 of 2 is impossible"},
      {"of a rank of another size", changed("\"rank\":1", "\"rank\":2"),
       "rank 2 of 2 is impossible"},
      {"of a rank that wraps to 1", changed("\"rank\":1", "\"rank\":4294967297"),
       "rank 4294967297 of 2 is impossible"},
      {"of a fraction of a rank", changed("\"rank\":1", "\"rank\":1.5"),
       "rank 1.5 of 2 is impossible"},
      {"of a rank that is a nested array",
       changed("\"rank\":1", "\"rank\":" + std::string(400'000, '[') + std::string(400'000, ']')),
       "its rank or size is no number"},
      {"of a long line", changed("\"rank\":1", "\"rank\":1" + std::string(2'000'000, ' ')),
       "is longer than 1 MiB"},
      {"of too many ranks", changed("\"size\":2", "\"size\":2000000000"),
       "rank 1 of 2000000000 is impossible"},
  };
  for (const auto& [what, text, finding] : cases) {
    const Outcome outcome = report(text);
    INFO(what << ": " << outcome.out << outcome.err);
    CHECK(outcome.status == 1);
    CHECK(outcome.out.find(finding) != std::string::npos);
    CHECK(json::accept(readFile(folder.file("traces/trace.json"))));
  }
  std::filesystem::remove(files[1]);
  CHECK(shell("$RONDO report --trace " + folder.file("traces")).out.find("rank 1 has no trace") !=
        std::string::npos);
  CHECK(shell("$RONDO report --trace " + folder.file("")).status == 2);
}

TEST_CASE("the steps of rondo train are lanes of the same trace") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      "cd " + folder.file("") +
      "\nRONDO_TRACE=traces $RONDO train --model mlp --data synthetic -p 2 --batch 16 --steps 20 "
      ">log && $RONDO report --trace traces");
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  const json all = json::parse(readFile(folder.file("traces/trace.json")))["traceEvents"];
  std::map<std::pair<int, std::string>, int> steps;
  for (const json& span : eventsOf(all, "program"))
    if (span["name"] == "forward") ++steps[{span["pid"].get<int>(), span["name"]}];
  CHECK(steps ==
        std::map<std::pair<int, std::string>, int>{{{0, "forward"}, 20}, {{1, "forward"}, 20}});
  CHECK(eventsOf(all, "call").size() >= 40);
}

} // namespace
} // namespace rondo::test
