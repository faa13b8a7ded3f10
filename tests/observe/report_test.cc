// `rondo dump` and `rondo report` on real jobs with faults: the right rank, the right call.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/test.h"
#include "tests/observe/hosts.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using nlohmann::json;

/// Shell code: starts 4 ranks with a fault on rank 2, in the folder $F, and waits until they are
/// ready. $JOB is the launcher, $PIDS are the ranks that a reader may look at. The fault begins
/// when all ranks are ready. If rank 2 died before, others could fail before they are ready.
std::string start(const std::string& folder, const std::string& fault,
                  const std::string& environment) {
  return "F=" + folder + "\nmkdir -p $F/dumps\ncd $F\nenv RONDO_HEARTBEAT=10 " + environment +
         " $RONDO run -p 4 -- env --default-signal=QUIT " RONDO_TEST_PROGRAMS "/program_recorded " +
         fault +
         " 2 go >out 2>err &\nJOB=$!\n"
         "for TRY in $(seq 600); do\n  [ $(grep -c ready out) = 4 ] && break\n  sleep 0.1\ndone\n"
         "PIDS=$(sed -n 's/^ready . //p' out)\ntouch go\n";
}
/// Shell code: dumps the ranks until the report contains the text, at most 20 times. On a busy
/// machine the ranks need longer to come to where the text is true.
std::string dumpWhen(const std::string& text) {
  return "sleep 1.5\nfor TRY in $(seq 20); do\n  sleep 1\n  rm -f dumps/*\n"
         "  $RONDO dump $PIDS -o dumps >dumped\n"
         "  $RONDO report dumps --json 2>&1 | grep -qF '" +
         text + "' && break\ndone\n";
}
const std::string kEnd = "kill -CONT $PIDS 2>/dev/null; kill -9 $PIDS $JOB 2>/dev/null; wait\n";

struct Report {
  int status = 0;
  json page;
  std::vector<json> culprits() const { return page.at("culprits").get<std::vector<json>>(); }
  std::string findings() const { return page.at("communicators").at(0).at("findings").dump(); }
};

Report reportOf(const std::string& dumps) {
  const Outcome outcome = shell("$RONDO report " + dumps + " --json");
  INFO(outcome.err);
  REQUIRE(outcome.status < 2);
  return {outcome.status, json::parse(outcome.out)};
}

struct FaultCase {
  const char* fault;
  const char* kind;
  const char* text;
  int errors = 4; ///< ranks whose call fails
  int dumps = 4;  ///< at least
};

void checkReport(const Report& report, const FaultCase& expected) {
  INFO(report.page.dump(2));
  CHECK(report.status == 1);
  REQUIRE(report.culprits().size() == 1);
  CHECK(report.culprits()[0]["rank"] == 2);
  CHECK(report.culprits()[0]["kind"] == expected.kind);
  CHECK(report.findings().find(expected.text) != std::string::npos);
}

TEST_CASE("a job that hangs: dumps from outside name the late rank and its call") {
  // Heartbeats are slow, so that the job does not fail before it is dumped.
  const FaultCase faults[] = {
      {"skip", "never_entered",
       "rank 2 never entered AllReduce #101 (sum of 1000 float), where ranks 0, 1, 3 wait"},
      {"stop", "stopped", "rank 2 is stopped (SIGSTOP, or a debugger) and never entered AllReduce"},
  };
  for (const FaultCase& fault : faults)
    for (const char* transport : {"shm", "tcp"}) {
      INFO(fault.fault << " over " << transport);
      const TemporaryFolder folder;
      const Outcome outcome =
          shell(start(folder.file("job"), fault.fault,
                      std::string("RONDO_HEARTBEAT=60 RONDO_TRANSPORT=") + transport) +
                    dumpWhen(fault.text) + kEnd,
                400);
      REQUIRE(countOf(readFile(folder.file("job/dumped")), "process ") == 4);
      const Report report = reportOf(folder.file("job/dumps"));
      checkReport(report, fault);
      CHECK(report.page["communicators"][0]["transports"] == transport);
      CHECK(report.page["communicators"][0]["ranks"][2]["in_flight"] == nullptr);
      CHECK(report.page["communicators"][0]["ranks"][0]["in_flight"] ==
            "AllReduce #101 (sum of 1000 float)");
    }
}

TEST_CASE("a rank that waits for a message: the report names the sender that never sent") {
  const TemporaryFolder folder;
  shell(start(folder.file("job"), "unsent", "RONDO_HEARTBEAT=60") + dumpWhen("never_sent") + kEnd,
        400);
  const Report report = reportOf(folder.file("job/dumps"));
  INFO(report.page.dump(2));
  REQUIRE(report.culprits().size() == 1);
  CHECK(report.culprits()[0]["rank"] == 3);
  CHECK(report.culprits()[0]["kind"] == "never_sent");
}

TEST_CASE("a job that fails dumps by itself, and the report names rank, call and difference") {
  const FaultCase faults[] = {
      {"count", "differs", "count 999 instead of 1000"},
      {"type", "differs", "type int32 instead of float"},
      {"op", "differs", "operator max instead of sum"},
      {"root", "differs", "root 1 instead of 0", 2, 4},
      {"call", "differs", "Barrier instead of AllReduce"},
      {"kill", "failure", "peer_dead: rank 2 died", 3, 3},
      {"kill_busy", "failure", "peer_dead: rank 2 died", 2, 2},
      {"leave", "left", "rank 2 has closed the communicator and never entered AllReduce #101", 3,
       3},
  };
  for (const FaultCase& fault : faults) {
    INFO(fault.fault);
    const TemporaryFolder folder;
    shell(start(folder.file("job"), fault.fault, "RONDO_DUMP=dumps") +
          "for TRY in $(seq 300); do\n  [ $(grep -c error out) -ge " +
          std::to_string(fault.errors) + " ] && break\n  sleep 0.1\ndone\n" +
          "for TRY in $(seq 50); do\n  [ $(ls dumps | grep -c 'jsonl$') -ge " +
          std::to_string(fault.dumps) + " ] && break\n  sleep 0.1\ndone\n" +
          (std::string(fault.fault) == "leave" ? "$RONDO dump $PIDS -o dumps\n" : "") + kEnd);
    checkReport(reportOf(folder.file("job/dumps")), fault);
  }
}

// Rank 2 of four dies, which is rank 0 of its pair. Of the others only rank 3 knows both failures.
TEST_CASE("two communicators lose the same rank: one culprit and one consequence") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(start(folder.file("job"), "kill_pairs", "RONDO_DUMP=dumps") +
                                "for TRY in $(seq 300); do\n"
                                "  [ $(ls dumps | grep -c 'jsonl$') = 4 ] && break\n"
                                "  sleep 0.1\ndone\n"
                                "cp -r dumps kept\n" + // at the end other ranks may see one die
                                kEnd);
  const Report report = reportOf(folder.file("job/kept"));
  INFO(outcome.out << outcome.err << report.page.dump(2));
  CHECK(report.culprits().size() == 1);
  REQUIRE(report.page["communicators"].size() == 3);
  CHECK(countOf(report.page.dump(), "\"kind\":\"consequence\"") == 1);
}

TEST_CASE("ranks without a fault: no culprit, at any moment of the job") {
  const TemporaryFolder folder;
  shell("F=" + folder.file("job") +
            "\nmkdir -p $F\ncd $F\nRONDO_HEARTBEAT=30 $RONDO run -p 4 -- sh -c 'echo $$ "
            ">pid.$RONDO_RANK; exec " +
            std::string(RONDO_TEST_PROGRAMS) +
            "/program_endless_allreduce 1000' >out 2>&1 &\nJOB=$!\n"
            "for TRY in $(seq 300); do [ $(grep -c ready out) = 4 ] && break; sleep 0.1; done\n"
            // Other programs may delay a rank for a second, but not at most moments.
            "for I in 1 2 3 4 5 6 7 8; do\n  for TRY in 1 2 3; do\n    rm -rf dumps.$I\n"
            "    $RONDO dump $(cat pid.*) -o dumps.$I\n    $RONDO report dumps.$I >page && break\n"
            "  done\n  sleep 0.1\ndone\nkill $JOB; wait\n",
        400);
  for (int i = 1; i <= 8; ++i) {
    const Report report = reportOf(folder.file("job/dumps." + std::to_string(i)));
    INFO(report.page.dump(2));
    CHECK(report.page["dumps"] == 4);
    CHECK(report.status == 0);
    CHECK(report.culprits().empty());
  }
}

TEST_CASE("a report refuses broken and foreign dumps by name, and uses the others") {
  const TemporaryFolder folder;
  shell(start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60") + dumpWhen("rank 2 never entered") +
            kEnd,
        400);
  const std::string dumps = folder.file("job/dumps");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dumps))
    files.push_back(entry.path().string());
  REQUIRE(files.size() == 4);
  const std::string whole = readFile(files[0]);
  std::ofstream(dumps + "/cut.jsonl") << whole.substr(0, whole.size() / 2);
  std::ofstream(dumps + "/tail.jsonl") << whole.substr(0, whole.rfind("{\"end\""));
  std::ofstream(dumps + "/empty.jsonl") << "";
  std::ofstream(dumps + "/text.jsonl") << "hello\nworld\n";
  std::string version = whole, job = whole;
  version.replace(version.find("\"rondo_dump\":2"), 14, "\"rondo_dump\":1");
  std::ofstream(dumps + "/version.jsonl") << version;
  job.replace(job.find("\"job\":\"") + 7, 16, "00000000deadbeef");
  std::ofstream(dumps + "/job.jsonl") << job;
  std::string rank = whole;
  rank.replace(rank.find("\"rank\":"), 8, "\"rank\":9");
  std::ofstream(dumps + "/rank.jsonl") << rank;
  const Report report = reportOf(dumps);
  INFO(report.page.dump(2));
  CHECK(report.culprits().size() == 1);
  CHECK(report.page["dumps"] == 4);
  std::string refused;
  for (const json& one : report.page["refused"])
    refused += one["file"].get<std::string>() + ": " + one["why"].get<std::string>() + "\n";
  for (const char* line :
       {"cut.jsonl: truncated or damaged in line", "tail.jsonl: truncated: its end is missing",
        "empty.jsonl: empty", "text.jsonl: no dump",
        "version.jsonl: a dump of version 1; this command reads 2",
        "job.jsonl: of another job, 00000000deadbeef", "rank.jsonl: impossible rank"}) {
    INFO(line << " in\n" << refused);
    CHECK(refused.find(line) != std::string::npos);
  }
  CHECK(report.page["refused"].size() == 7);
  // A rank whose dump is missing is named as such.
  for (const std::string& file : files)
    if (readFile(file).find("\"rank\":2,") != std::string::npos) std::filesystem::remove(file);
  const Report without = reportOf(dumps);
  REQUIRE(without.culprits().size() == 1);
  CHECK(without.culprits()[0]["rank"] == 2);
  CHECK(without.culprits()[0]["kind"] == "missing");
  CHECK(shell("$RONDO report " + folder.file("job")).status == 3);
  CHECK(shell("$RONDO report /nonexistent").status == 2);
}

// Proves: neither the heartbeats of a rank nor its calls wait for the file system of its dumps. The
// end of the process waits for a dump that is being written.
TEST_CASE("a rank whose folder for dumps does not answer is not taken for dead") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell("cd " + folder.file("") +
            "\nmkdir 0 1\nRONDO_HEARTBEAT=0.5 timeout 60 $RONDO run -p 2 "
            "-- sh -c 'RONDO_DUMP=$RONDO_RANK exec " RONDO_TEST_PROGRAMS "/program_slow_dump'\n");
  INFO(outcome.err);
  CHECK(countOf(outcome.out, "lives") == 2);
  CHECK(outcome.status == 0);
  for (const char* rank : {"0", "1"}) {
    const std::filesystem::directory_iterator files(folder.file(rank)), end;
    CHECK(std::count_if(files, end, [](const std::filesystem::directory_entry& entry) {
            return entry.path().extension() == ".jsonl";
          }) == 2);
  }
}

TEST_CASE("SIGQUIT makes a dump if RONDO_DUMP names a folder, and the program goes on") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60 RONDO_DUMP=dumps") +
      "sleep 3\nkill -QUIT $PIDS\n"
      "for TRY in $(seq 100); do [ $(ls dumps | grep -c 'jsonl$') = 4 ] && break; sleep 0.1; done\n"
      // At the end a rank may see another one die, and make one more dump.
      "kill -0 $PIDS && cp -r dumps kept && echo alive\n" +
      kEnd);
  CHECK(outcome.out.find("alive") != std::string::npos);
  checkReport(reportOf(folder.file("job/kept")), {"skip", "never_entered", "never entered"});
}

TEST_CASE("RONDO_DUMP: the folder is made, and a forked child dies of SIGQUIT") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      start(folder.file("job"), "child", "RONDO_HEARTBEAT=60 RONDO_DUMP=new") +
      "stat -c %a new\nCHILD=$(sed -n 's/^ready 2 //p' out)\nkill -QUIT $CHILD\n"
      "for TRY in $(seq 100); do grep -qs '^State:.[^ZX]' /proc/$CHILD/status || break; sleep 0.1; "
      "done\ngrep -qs '^State:.[^ZX]' /proc/$CHILD/status && echo alive\n" +
      kEnd +
      "cat err\n$RONDO run -p 1 -- env RONDO_DUMP=/nowhere/x " RONDO_TEST_PROGRAMS
      "/program_recorded end 0 2>&1\n");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.out.starts_with("700\n"));
  CHECK(outcome.out.find("alive") == std::string::npos);
  CHECK(outcome.out.find("RONDO_DUMP: dumps cannot be written into /nowhere/x: No such file") !=
        std::string::npos);
}

TEST_CASE("without RONDO_DUMP the library leaves SIGQUIT alone, and writes nothing") {
  const TemporaryFolder folder;
  const Outcome outcome =
      shell(start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60") +
            "kill -QUIT $(echo $PIDS | cut -d' ' -f1)\nwait $JOB\necho status $?\n" + kEnd);
  CHECK(outcome.out.find("status 131") != std::string::npos); // 128 + SIGQUIT
  CHECK(std::filesystem::is_empty(folder.file("job/dumps")));
}

TEST_CASE("a dump of a process without a record, or of no process, is an error that says so") {
  const TemporaryFolder folder;
  const std::string to = " -o " + folder.file("dumps");
  Outcome outcome =
      shell("sleep 60 & PID=$!\n$RONDO dump $PID" + to + "; S=$?; kill $PID; exit $S");
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("has no record of calls") != std::string::npos);
  outcome = shell("$RONDO dump 999999999" + to);
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("there is no process 999999999") != std::string::npos);
  CHECK(shell("$RONDO dump 12x" + to).status == 2);
  // A forked child of a rank has no record of its own.
  outcome = shell(start(folder.file("job"), "child", "RONDO_HEARTBEAT=60") +
                  "$RONDO dump $(sed -n 's/^ready 2 //p' out) -o dumps; echo status $?\n" + kEnd);
  CHECK(outcome.out.find("status 1") != std::string::npos);
}

// Proves: standard output gets what the files would, whole lines only, and a process without a
// record, a full disk and a reader that ends are not passed over in silence.
TEST_CASE("dump -o -: the dumps of all processes, one after the other, on standard output") {
  const TemporaryFolder folder;
  const Outcome outcome = shell(
      start(folder.file("job"), "skip", "RONDO_HEARTBEAT=60") +
          "sleep 2.5\nmkdir one\n$RONDO dump $PIDS -o - >one/all.jsonl; echo status $?\n"
          "$RONDO dump all -o - --last 1 >everything; echo status $?\n"
          "$RONDO dump $PIDS 999999999 -o - >beside; echo status $?\n"
          "$RONDO dump 999999999 -o - >none; echo status $?\n"
          "$RONDO dump $PIDS -o - >/dev/full; echo status $?\n"
          "$RONDO dump $PIDS -o - --last 1 --interval 0.05 | head -n 30 | grep -c rondo_dump\n" +
          kEnd,
      400);
  INFO(outcome.out << outcome.err);
  const std::string all = readFile(folder.file("job/one/all.jsonl"));
  CHECK(outcome.out.starts_with("status 0\nstatus 0\nstatus 1\nstatus 1\nstatus 3\n"));
  const auto lines = linesOf(outcome.out);
  CHECK(std::stoi(lines.back()) > 4); // processes: it dumped more than once until its reader ended
  CHECK(countOf(outcome.err, "there is no process 999999999") == 2);
  CHECK(outcome.err.find("No space left on device") != std::string::npos);
  for (const std::string& line : linesOf(all)) CHECK(json::accept(line));
  CHECK(all.ends_with("\n"));
  CHECK(countOf(all, "\"rondo_dump\"") == 4);
  CHECK(countOf(readFile(folder.file("job/everything")), "\"rondo_dump\"") >= 4);
  CHECK(countOf(readFile(folder.file("job/beside")), "\"rondo_dump\"") == 4);
  CHECK(readFile(folder.file("job/none")).empty());
  checkReport(reportOf(folder.file("job/one")), {"skip", "never_entered", "rank 2 never entered"});
}

// Proves: the reader's end counts also while there is nothing to write.
TEST_CASE("dump --interval ends with its reader, also if no process has a record") {
  const Outcome outcome = shell(
      "sleep 100 & PID=$!\n"
      "{ timeout 30 $RONDO dump $PID -o - --interval 0.1; echo status $? >&2; } | true\n"
      "kill $PID\n");
  INFO(outcome.err);
  CHECK(outcome.err == "status 0\n");
}

TEST_CASE("ranks of one process number, in two namespaces of a host, overwrite no dump") {
  if (!hasHosts()) return; // it needs root, too
  const TemporaryFolder folder;
  const std::string program = RONDO_TEST_PROGRAMS "/program_recorded ",
                    apart = " $RONDO run -p 2 -- unshare --pid --fork --mount-proc --kill-child ";
  const Outcome outcome =
      shell("cd " + folder.file("") + "\nRONDO_DUMP=own" + apart + program +
            "count 1 1 >out 2>err\nls own | grep -c 'jsonl$'\n"
            "cat >rank <<'END'\n" +
            program +
            "none 1 60 >ready.$RONDO_RANK &\n"
            "for TRY in $(seq 600); do grep -qs ready ready.$RONDO_RANK && break; sleep 0.1; done\n"
            "$1 dump $! -o asked >dumped.$RONDO_RANK\n"
            "for TRY in $(seq 600); do\n"
            "  [ -s dumped.0 ] && [ -s dumped.1 ] && break\n  sleep 0.1\ndone\nkill -9 $!\nEND\n" +
            apart + "sh ./rank $RONDO >out 2>err\nls asked | grep -c 'jsonl$'\n");
  INFO(outcome.out << outcome.err << readFile(folder.file("err")));
  CHECK(outcome.out == "2\n2\n");
  const Report report = reportOf(folder.file("own"));
  CHECK(report.page["communicators"][0]["ranks"].size() == 2);
  CHECK(report.findings().find("count 999 instead of 1000") != std::string::npos);
}

TEST_CASE("a report names what cannot be read: a link that leads nowhere hides no dump") {
  const TemporaryFolder folder;
  const std::string dumps = folder.file("dumps");
  std::filesystem::create_directory(dumps);
  std::filesystem::create_symlink("nowhere", dumps + "/link.jsonl");
  Outcome outcome = shell("$RONDO report " + dumps);
  CHECK(outcome.status == 3);
  CHECK(outcome.err.find("no dump of a job in " + dumps) != std::string::npos);
  // Root may read everything.
  const std::string other = ::geteuid() == 0 ? "setpriv --reuid 65534 --clear-groups " : "";
  if (shell(other + "test -x $RONDO").status != 0) return; // another user cannot run it here
  outcome =
      shell("chmod 755 " + folder.path() + "\ncd " + dumps +
            "\necho '{}' >1.jsonl\necho '{}' >1.json\nchmod 0 1.*\n" + other + "$RONDO report .\n");
  INFO(outcome.err);
  for (const char* file : {"1.jsonl", "1.json"})
    CHECK(outcome.err.find("refused: " + std::string(file) + ": Permission denied") !=
          std::string::npos);
}

} // namespace
} // namespace rondo::test
