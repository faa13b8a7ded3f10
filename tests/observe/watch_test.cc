// `rondo watch` on real jobs: the right rank and call for each fault, and none without a fault.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"
#include "tools/descriptor.h"
#include "tools/dump_processes.h"
#include "tools/watch_print.h"

namespace rondo::test {
namespace {

using namespace tools;
using nlohmann::json;

/// Shell code: starts 4 ranks, and a watch of their job, which prints to the file "watched". When
/// it has printed the job (or after two minutes), the fault on rank 2 begins. $JOB is the launcher,
/// $PIDS the ranks, $WATCH the watch, $NUMBER the number of the job.
///
/// The watch gets $PIDS. Without them it would also read the jobs of tests that run at the same
/// time. If these have hundreds of communicators, that takes minutes with a sanitizer.
std::string start(const std::string& folder, const std::string& fault,
                  const std::string& environment) {
  return "mkdir -p " + folder + "\ncd " + folder + "\nenv RONDO_HEARTBEAT=10 " + environment +
         " $RONDO run -p 4 -- " RONDO_TEST_PROGRAMS "/program_recorded " + fault +
         " 2 go >out 2>err &\nJOB=$!\n"
         "for TRY in $(seq 1200); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done\n"
         "PIDS=$(sed -n 's/^ready . //p' out)\n"
         "$RONDO watch --interval 0.4 --patience 2 --json $PIDS >watched 2>watch_err &\nWATCH=$!\n"
         "for TRY in $(seq 1200); do grep -q '\"job\":' watched && break; sleep 0.1; done\n"
         "NUMBER=$(sed -n 's/.*\"jobs\":\\[{\"job\":\"\\([0-9a-f]*\\).*/\\1/p' watched | head -n "
         "1)\n"
         "touch go\n";
}
/// In seconds, for shell code with start(). Idle it takes 5 to 20.
constexpr int kDeadline = 400;
/// Waits until a rank of the job is blamed, for a minute.
const std::string kUntilBlamed =
    "for TRY in $(seq 600); do\n"
    "  grep -q '\"culprits\":\\[[^]]*\"job\":\"'$NUMBER'\"' watched && break\n"
    "  sleep 0.1\ndone\n";
/// Waits until the watch has printed the text, for a minute: its first look at a fault may not have
/// seen all of it.
std::string untilPrinted(const std::string& text) {
  return "for TRY in $(seq 600); do grep -qF '" + text + "' watched && break; sleep 0.1; done\n";
}
/// Waits for eight more looks of the watch, for a minute.
const std::string kMoreLooks =
    "LOOKS=$(wc -l <watched)\n"
    "for TRY in $(seq 600); do\n"
    "  [ $(wc -l <watched) -ge $((LOOKS + 8)) ] && break\n"
    "  sleep 0.1\ndone\n";
const std::string kEnd =
    "kill $WATCH; kill -CONT $PIDS 2>/dev/null; kill -9 $PIDS $JOB 2>/dev/null\n"
    "wait\n";

/// The objects that the watch of this job printed. (Other jobs may run beside it.)
std::vector<json> objectsOf(const std::string& folder) {
  std::vector<json> all;
  std::set<std::string> own;
  const std::string ready = readFile(folder + "/out");
  for (const std::string& line : linesOf(ready))
    if (line.starts_with("ready ")) own.insert(line.substr(8));
  for (const std::string& line : linesOf(readFile(folder + "/watched"))) {
    const json page = json::parse(line, nullptr, false);
    if (page.is_discarded()) continue; // it was killed within the line
    for (const json& job : page["jobs"])
      for (const json& communicator : job["communicators"])
        if (own.contains(communicator["ranks"][0]["pid"])) all.push_back(communicator);
  }
  return all;
}

struct Blamed {
  int rank = -1;
  std::string kind, text;
  auto operator<=>(const Blamed&) const = default;
};
std::vector<Blamed> blamedIn(const json& communicator) {
  std::vector<Blamed> all;
  for (const json& finding : communicator["findings"])
    if (finding["culprit"] >= 0)
      all.push_back({finding["culprit"], finding["kind"], finding["text"]});
  return all;
}

struct FaultCase {
  const char* fault;
  const char* text; ///< of the finding
};

void checkFault(const FaultCase& expected, const std::string& transport) {
  INFO(expected.fault << " over " << transport);
  const TemporaryFolder folder;
  // A stopped rank is to be blamed by the watch before the job fails.
  const std::string heartbeat = expected.fault == std::string("stop") ? " RONDO_HEARTBEAT=60" : "";
  shell(start(folder.file("job"), expected.fault, "RONDO_TRANSPORT=" + transport + heartbeat) +
            kUntilBlamed + untilPrinted(expected.text) + kEnd,
        kDeadline);
  const auto objects = objectsOf(folder.file("job"));
  INFO(readFile(folder.file("job/out"))
       << readFile(folder.file("job/err")) << readFile(folder.file("job/watch_err")));
  REQUIRE(!objects.empty());
  std::set<Blamed> blamed;
  for (const json& object : objects)
    for (const Blamed& one : blamedIn(object)) blamed.insert(one);
  REQUIRE(!blamed.empty());
  std::string texts;
  for (const Blamed& one : blamed) {
    INFO(one.kind << ": " << one.text);
    CHECK(one.rank == 2);
    texts += one.text + "\n";
  }
  INFO(texts);
  CHECK(texts.find(expected.text) != std::string::npos);
}

TEST_CASE("watch: each fault is blamed on its rank, with its call, and no other rank is",
          "[command]") {
  const FaultCase faults[] = {
      {"skip", "rank 2 never entered AllReduce #101 (sum of 1000 float), where ranks 0, 1, 3 wait"},
      {"stop", "rank 2 is stopped (SIGSTOP, or a debugger) and never entered AllReduce #101"},
      {"kill", "rank 2 died"},
      {"count", "rank 2 calls AllReduce #101 (sum of 999 float)"},
      {"type", "rank 2 calls AllReduce #101 (sum of 1000 int32)"},
      {"op", "rank 2 calls AllReduce #101 (max of 1000 float)"},
      {"root", "rank 2 calls Broadcast #101 (1000 float, root 1)"},
      {"straggler", "rank 2 is a straggler"},
  };
  std::size_t number = 0;
  for (const FaultCase& fault : faults) {
    ++number; // with sanitizers, each fault is tested over one transport only
    for (const char* transport : {"shm", "tcp"})
      if (kWholeGrid || (number % 2 == 0) == (transport == std::string("tcp")))
        checkFault(fault, transport);
  }
}

// Proves: a rank is stopped, and the kind of the finding may change from look to look (late,
// stopped, unresponsive); but each look blames this rank, and no other one.
TEST_CASE("watch: ten looks at one hang name one culprit", "[command]") {
  const TemporaryFolder folder;
  const std::string settings[] = {"RONDO_HEARTBEAT=60 RONDO_TRANSPORT=shm",
                                  "RONDO_HEARTBEAT=60 RONDO_TRANSPORT=tcp",
                                  "RONDO_HEARTBEAT=2"}; // it fails meanwhile
  for (const std::string& setting : settings) {
    INFO(setting);
    const std::string job = folder.file(setting.substr(setting.size() - 3));
    shell(start(job, "stop", setting) + kUntilBlamed + kMoreLooks + kMoreLooks + kEnd, kDeadline);
    std::size_t looks = 0;
    for (const json& object : objectsOf(job)) {
      const std::vector<Blamed> blamed = blamedIn(object);
      if (looks == 10) break;                     // later ones may see the end of the job
      if (blamed.empty() && looks == 0) continue; // before the hang
      INFO(object.dump(2));
      ++looks;
      REQUIRE(!blamed.empty());
      for (const Blamed& one : blamed) CHECK(one.rank == 2);
    }
    CHECK(looks == 10);
  }
}

// Proves: a watch is not taken for a rank of the job that it reads, and its end not for the end of
// that rank.
TEST_CASE("watch: another watch that comes and ends is no rank of the job", "[command]") {
  const TemporaryFolder folder;
  shell(start(folder.file("job"), "none", "RONDO_HEARTBEAT=30") +
            "$RONDO watch --interval 0.2 --json $PIDS >other &\nOTHER=$!\n"
            "for TRY in $(seq 600); do [ -s other ] && break; sleep 0.1; done\n"
            "kill -9 $OTHER\n" +
            kMoreLooks + kEnd,
        kDeadline);
  CHECK(!linesOf(readFile(folder.file("job") + "/other")).empty());
  const auto objects = objectsOf(folder.file("job"));
  REQUIRE(objects.size() > 4);
  for (const json& object : objects) {
    INFO(object.dump(2));
    CHECK(blamedIn(object).empty());
    for (const json& rank : object["ranks"]) CHECK(rank["state"] == "running");
  }
}

TEST_CASE("watch: ranks without a fault are not blamed, and their calls are counted", "[command]") {
  const TemporaryFolder folder;
  shell(start(folder.file("job"), "none", "RONDO_HEARTBEAT=30") + kMoreLooks + kMoreLooks + kEnd,
        kDeadline);
  const auto objects = objectsOf(folder.file("job"));
  REQUIRE(objects.size() > 4);
  for (const json& object : objects) {
    INFO(object.dump(2));
    CHECK(blamedIn(object).empty());
  }
  const json& rank = objects.back()["ranks"][3];
  INFO(rank.dump(2));
  CHECK(rank["rank"] == 3);
  CHECK(rank["state"] == "running");
  CHECK(rank["calls"] > 100);
  CHECK(rank["bytes"] > 4000);
  // Between two looks on a busy machine there may be no call.
  CHECK(std::any_of(objects.begin(), objects.end(),
                    [](const json& object) { return object["ranks"][3]["calls_per_second"] > 0; }));
  CHECK(std::any_of(objects.begin(), objects.end(), [](const json& object) {
    return object["ranks"][3]["bus_bytes_per_second"] > 0;
  }));
}

TEST_CASE("watch: a job that starts after the watch of all jobs is found", "[command]") {
  const TemporaryFolder folder;
  shell("cd " + folder.file("") +
            "\n$RONDO watch --interval 0.2 --json >early &\nEARLY=$!\n"
            "for TRY in $(seq 600); do [ -s early ] && break; sleep 0.1; done\n" +
            start(folder.file("job"), "none", "RONDO_HEARTBEAT=60") +
            "for TRY in $(seq 1200); do grep -q \"$NUMBER\" ../early && break; sleep 0.1; done\n"
            "kill $EARLY\n" +
            kEnd,
        kDeadline);
  const auto objects = objectsOf(folder.file("job"));
  REQUIRE(!objects.empty());
  const std::string pid = "\"pid\":" + objects.back()["ranks"][3]["pid"].dump();
  const auto early = linesOf(readFile(folder.file("early")));
  REQUIRE(early.size() > 1);
  CHECK(early.front().find(pid) == std::string::npos);
  CHECK(std::any_of(early.begin(), early.end(),
                    [&](const std::string& line) { return line.find(pid) != std::string::npos; }));
}

TEST_CASE("watch: one look shows the waiting ranks in 100 columns, and the exit status tells",
          "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60") + kUntilBlamed +
                "set -- $PIDS\n$RONDO watch --once --patience 2 $1 >table; echo status $?\n"
                "$RONDO watch --once --json --patience 2 --job $NUMBER >json; echo status $?\n"
                "$RONDO watch --once --job 1234 >none; echo status $?\n" +
                kEnd,
            kDeadline);
  INFO(outcome.err);
  CHECK(outcome.out == "status 1\nstatus 1\nstatus 3\n");
  const std::string table = readFile(folder.file("job/table"));
  INFO(table);
  for (const std::string& line : linesOf(table)) CHECK(line.size() <= 100);
  CHECK(
      table.find("  CULPRIT: rank 2 never entered AllReduce #101 (sum of 1000 float), where ranks "
                 "0, 1, 3") != std::string::npos);
  CHECK(table.find("AllReduce #101 1000 float sum") != std::string::npos);
  CHECK(table.find("- after AllReduce #100") != std::string::npos);
  CHECK(countOf(table, " rank 2 ") >= 2);
  CHECK(readFile(folder.file("job/none")).find("no job") != std::string::npos);
  const json page = json::parse(readFile(folder.file("job/json")));
  CHECK(page["culprits"].size() == 1);
  const json& ranks = page["jobs"][0]["communicators"][0]["ranks"];
  CHECK(ranks[0]["call"]["collective"] == "AllReduce");
  CHECK(ranks[0]["call"]["sequence"] == 101);
  CHECK(ranks[0]["call_seconds"] > 0.5);
  CHECK(ranks[2]["call"] == nullptr);
  CHECK(ranks[2]["waits_for"].empty());
}

TEST_CASE("watch: --once looks as often as a straggler needs to be named", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(start(folder.file("job"), "straggler", "RONDO_HEARTBEAT=60") + kUntilBlamed +
                "for TRY in $(seq 10); do\n"
                "  $RONDO watch --once --interval 0.2 --json --job $NUMBER >once; STATUS=$?\n"
                "  grep -q '\"culprits\":\\[{' once && break\n"
                "done\n" // on a busy machine another rank may be last in some calls
                "cat once; echo status $STATUS\n" +
                kEnd,
            kDeadline);
  INFO(outcome.out << outcome.err);
  const auto out = linesOf(outcome.out);
  REQUIRE(out.size() == 2);
  const json culprits = json::parse(out[0])["culprits"];
  REQUIRE(culprits.size() == 1);
  CHECK(culprits[0]["rank"] == 2);
  CHECK(culprits[0]["kind"] == "straggler");
  CHECK(out[1] == "status 1");
}

/// Shell code: in a network namespace of its own, two ranks that meet at an address which the other
/// namespace has, too. Prints their process ids to the file $1.
const std::string kTwoRanksApart =
    "apart() {\n"
    "  unshare --net sh -c 'ip link set lo up\n"
    "    for RANK in 0 1; do\n"
    "      RONDO_RANK=$RANK RONDO_SIZE=2 RONDO_COMM_ID=127.0.0.1:23519 RONDO_HEARTBEAT=60 "
    "timeout 60 " RONDO_TEST_PROGRAMS
    "/program_recorded none 2 2 &\n    done\n    wait' >$1 2>$1.err &\n"
    "}\n";

TEST_CASE("watch: jobs at one address in two network namespaces are two jobs", "[command]") {
  if (!hasHosts()) return;
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") + "\n" + kTwoRanksApart +
            "apart one\napart two\n"
            "for TRY in $(seq 300); do [ $(cat one two | grep -c ready) = 4 ] && break; sleep 0.1; "
            "done\nPIDS=$(sed -n 's/^ready . //p' one two)\n"
            "$RONDO watch --once --json $PIDS\nkill -9 $PIDS; wait\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("one.err")));
  const json page = json::parse(linesOf(outcome.out).at(0));
  REQUIRE(page["jobs"].size() == 2);
  std::set<std::string> pids;
  for (const json& job : page["jobs"]) {
    REQUIRE(job["communicators"].size() == 1);
    for (const json& rank : job["communicators"][0]["ranks"]) pids.insert(rank["pid"]);
  }
  CHECK(pids.size() == 4);
}

TEST_CASE("watch: processes without a chosen job are not read", "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") +
            "\nfor JOB in one two; do\n  RONDO_HEARTBEAT=60 timeout 60 $RONDO run -p 2 -- "
            "" RONDO_TEST_PROGRAMS
            "/program_recorded none 2 2 >$JOB 2>$JOB.err </dev/null &\ndone\n"
            "for TRY in $(seq 300); do [ $(cat one two | grep -c ready) = 4 ] && break; sleep 0.1; "
            "done\nsed -n 's/^ready . //p' one two\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("one.err")));
  const auto pids = linesOf(outcome.out);
  REQUIRE(pids.size() == 4);
  const auto dumpsOfChosen = [&](const JobChoice& choice) {
    WatchedProcesses processes(pids, choice);
    const Descriptor file(::open(folder.file("dumps").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    processes.write(file.get(), 1);
    return readFile(folder.file("dumps"));
  };
  CHECK(countOf(dumpsOfChosen({}), "\"rondo_dump\"") == 4);
  const std::string text = dumpsOfChosen({.processes = {pids[3]}});
  CHECK(countOf(text, "\"rondo_dump\"") == 2);
  CHECK(countOf(text, "\"pid\":" + pids[2] + ",") == 1);
  const std::string job = text.substr(text.find("\"job\":\"") + 7, 16);
  CHECK(countOf(dumpsOfChosen({.job = job}), "\"rondo_dump\"") == 2);
  CHECK(dumpsOfChosen({.processes = {pids[0]}, .job = job}).empty());
  CHECK(dumpsOfChosen({.job = "no number"}).empty());
  for (const std::string& pid : pids) ::kill(std::stoi(pid), SIGKILL);
}

/// A view of one job with these communicators.
View viewOf(std::vector<CommunicatorView> communicators) {
  View view;
  view.jobs.push_back(
      {.dumps = std::make_shared<Dumps>(), .communicators = std::move(communicators)});
  return view;
}

TEST_CASE("watch: the table hides an idle communicator if its processes are active elsewhere") {
  RecordedRank busy, idle, other;
  RecordedCall call;
  busy.process = idle.process = "host:1";
  other.process = "host:2";
  const CommunicatorView active{
      .id = "active", .transports = "shm", .size = 1, .ranks = {{.rank = &busy, .call = &call}}};
  const CommunicatorView hidden{
      .id = "hidden", .transports = "shm", .size = 1, .ranks = {{.rank = &idle}}};
  const CommunicatorView shown{
      .id = "shown", .transports = "shm", .size = 2, .ranks = {{.rank = &idle}, {.rank = &other}}};
  const View view = viewOf({active, hidden, shown});
  const std::string table = tableOf(view, 100), text = jsonOf(view);
  INFO(table << text);
  CHECK(table.find("communicator active: ") != std::string::npos);
  CHECK(table.find("communicator shown: ") != std::string::npos);
  CHECK(table.find("hidden") == std::string::npos);
  CHECK(table.find("not shown, idle: 1 communicator of these processes") != std::string::npos);
  for (const char* id : {"active", "hidden", "shown"})
    CHECK(text.find("\"communicator\":\"" + std::string(id)) != std::string::npos);
  // One with a finding is not idle.
  CommunicatorView failed = hidden;
  failed.findings = {{"died", 0, "rank 0 died"}};
  CHECK(tableOf(viewOf({active, failed}), 100).find("rank 0 died") != std::string::npos);
}

TEST_CASE("watch: dumps that a command prints, even 3 s late, are ranks of other hosts",
          "[command]") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60") +
                                    "sleep 6\n$RONDO dump $PIDS -o - --last 10 | sed "
                                    "'s/\"host\":\"[^\"]*\"/\"host\":\"far\"/' "
                                    ">dumps\n" +
                                    kEnd +
                                    "$RONDO watch --once --json --patience 1 --job $NUMBER \\\n"
                                    "  --from 'sleep 3; cat dumps; echo broken; exec sleep 100'\n"
                                    "$RONDO watch --once --job $NUMBER --from 'exit 3'\n",
                                kDeadline);
  INFO(outcome.out << outcome.err);
  const json page = json::parse(linesOf(outcome.out).at(0));
  bool found = false;
  for (const json& culprit : page["culprits"])
    found = found || (culprit["rank"] == 2 && culprit["kind"] == "never_entered");
  CHECK(found);
  CHECK(outcome.out.find("\"host\":\"far\"") != std::string::npos);
  CHECK(outcome.out.find("warning: 'exit 3' has ended") != std::string::npos);
}

const std::string kTwoRanks =
    "env RONDO_HEARTBEAT=60 $RONDO run -p 2 -- " RONDO_TEST_PROGRAMS "/program_recorded none 2 2";

TEST_CASE("watch: a process number does not mean the process of that number on another host",
          "[command]") {
  const auto pages =
      linesBeside(kTwoRanks, 2,
                  "$RONDO dump $PIDS -o - | sed 's/\"host\":\"[^\"]*\"/\"host\":\"far\"/;\n"
                  "  s/\"job\":\"[^\"]*\"/\"job\":\"00000000deadbeef\"/' >dumps\n"
                  "for CHOICE in '--job 00000000deadbeef' $PIDS; do\n"
                  "  $RONDO watch --once --json $CHOICE --from 'cat dumps; exec sleep 100'\ndone");
  REQUIRE(pages.size() == 3);
  CHECK(pages[0].find("deadbeef") != std::string::npos);
  for (const std::size_t page : {1, 2}) {
    CHECK(json::parse(pages[page])["jobs"].size() == 1);
    CHECK(pages[page].find("deadbeef") == std::string::npos);
  }
}

TEST_CASE("watch: processes of one number in two namespaces of another host are two ranks",
          "[command]") {
  const std::string page =
      linesBeside(
          kTwoRanks, 2,
          "$RONDO dump $PIDS -o - >dumps\nkill $JOB; wait\n"
          "sed -i 's/\"host\":\"[^\"]*\",\"pid\":[0-9]*/\"host\":\"far\",\"pid\":1/' dumps\n"
          "NUMBER=$(sed -n 's/.*\"job\":\"\\([^\"]*\\).*/\\1/p' dumps | head -n 1)\n"
          "$RONDO watch --once --json --job $NUMBER --from 'cat dumps; exec sleep 100'")
          .at(0);
  INFO(page);
  const json jobs = json::parse(page)["jobs"];
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0]["communicators"][0]["ranks"].size() == 2);
}

TEST_CASE("watch: a rank in a process namespace is named by its number outside", "[command]") {
  if (!hasHosts()) return; // it needs root, too
  const auto out = linesBeside(
      "unshare --pid --fork --mount-proc --kill-child " RONDO_TEST_PROGRAMS
      "/program_recorded none 1 2",
      1,
      // unshare ignores the signal that ends jobs.
      "echo $PIDS\nRANK=$(cat /proc/$JOB/task/$JOB/children)\n$RONDO watch --once --json $RANK\n"
      "kill -9 $RANK");
  REQUIRE(out.size() == 2);
  CHECK(out[0] == "1");
  CHECK(json::parse(out[1])["jobs"].size() == 1);
}

TEST_CASE("watch: processes that cannot be watched are errors that say why", "[command]") {
  Outcome outcome = shell("sleep 60 & PID=$!\n$RONDO watch --once $PID; S=$?; kill $PID; exit $S");
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("has no record of calls") != std::string::npos);
  CHECK(outcome.err.find("it is a launcher and no rank, or has made no") != std::string::npos);
  outcome = shell("$RONDO watch 999999999");
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("there is no process 999999999") != std::string::npos);
  CHECK(shell("$RONDO watch 12x").status == 2);
  CHECK(shell("$RONDO watch --prometheus nonsense").status == 2);
  CHECK(
      shell("$RONDO watch --prometheus 203.0.113.7:9").err.find("cannot listen at 203.0.113.7:9") !=
      std::string::npos);
  if (::geteuid() != 0) return; // only root may become another user
  outcome = shell(
      "sleep 60 & PID=$!\nsetpriv --reuid 65534 --clear-groups $RONDO watch $PID; S=$?\n"
      "kill $PID; exit $S");
  if (outcome.err.find("setpriv") != std::string::npos ||
      outcome.err.find("ermission denied") != std::string::npos)
    return; // another user cannot run the command here
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("belongs to another user") != std::string::npos);
}

} // namespace
} // namespace rondo::test
