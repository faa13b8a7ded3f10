// Processes that may or may not read each other's private memory. Results are the same, each
// process logs a refusal once, and errors name a rank.
#include <cerrno>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/grid.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

struct End {
  long reads = 0, writes = 0;
  std::string wrong;
};
struct Outcome {
  std::map<int, End> ends;
  std::map<int, int> refusals; ///< log lines, by rank
  bool able = true;            ///< false: the case cannot run on this system
  std::string log;
};

/// How the ranks of tests/faults/programs/private_memory.cc ended.
Outcome run(int ranks, const std::string& arguments, const std::string& transports = "shm") {
  const std::string command =
      "timeout -s KILL 100 env RONDO_DEBUG=info RONDO_TIMEOUT=30 RONDO_TRANSPORT=" + transports +
      " " RONDO_COMMAND " run -p " + std::to_string(ranks) +
      " -- " RONDO_TEST_PROGRAMS "/program_private_memory " + arguments + " 2>&1";
  Outcome outcome;
  std::map<int, int> ranks_of, refused; // by process
  FILE* output = ::popen(command.c_str(), "r");
  char line[4096];
  while (std::fgets(line, sizeof line, output)) {
    std::istringstream words(line);
    std::string what;
    int rank = -1;
    words >> what >> rank;
    if (what == "end") {
      End& end = outcome.ends[rank];
      int process = -1;
      words >> process >> end.reads >> end.writes;
      ranks_of[process] = rank;
      std::getline(words, end.wrong);
      if (end.wrong == " ") end.wrong = "";
    } else if (what == "unable") {
      outcome.able = false;
    } else {
      outcome.log += line;
      // "host:pid INFO cannot read the private memory of rank ..."
      if (const auto pid = what.find(':');
          pid != std::string::npos &&
          std::string_view(line).find("process_vm_readv") != std::string_view::npos)
        ++refused[std::stoi(what.substr(pid + 1))];
    }
  }
  ::pclose(output);
  for (const auto& [process, lines] : refused) outcome.refusals[ranks_of.at(process)] += lines;
  return outcome;
}

/// Runs the program until `enough` accepts the outcome, 10 times at most: on a busy machine a rank
/// may come late to all calls, and then it gets everything through slots. Requires right results on
/// all ranks each time.
Outcome right(int ranks, const std::string& arguments,
              const std::function<bool(const Outcome&)>& enough = {}) {
  constexpr int kAttempts = 10;
  Outcome outcome;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    outcome = run(ranks, arguments);
    INFO(ranks << " ranks, " << arguments << "\n" << outcome.log);
    if (!outcome.able) return outcome;
    REQUIRE(outcome.ends.size() == static_cast<std::size_t>(ranks));
    for (const auto& [rank, end] : outcome.ends) {
      INFO("rank " << rank);
      CHECK(end.wrong == "");
    }
    if (!enough || enough(outcome)) break;
  }
  return outcome;
}

/// How often these two ranks copied from or to the memory of others. Of two ranks that share the
/// copies, either one may copy all parts.
long copiesOf(const Outcome& outcome, int one, int other) {
  const End &a = outcome.ends.at(one), &b = outcome.ends.at(other);
  return a.reads + a.writes + b.reads + b.writes;
}

} // namespace

// Proves: the calls use process_vm_readv or process_vm_writev (the program counts its calls), and
// every result is right.
TEST_CASE("processes read each other's private memory, and every result is right", "[private]") {
  for (const int ranks : kWholeGrid ? std::vector<int>{2, 3, 4, 5, 8} : std::vector<int>{2, 3}) {
    const auto eachCopied = [&](const Outcome& o) {
      for (int rank = 1; rank < ranks; ++rank)
        if (copiesOf(o, 0, rank) == 0) return false;
      return true;
    };
    const Outcome outcome = right(ranks, "-1 free", [&](const Outcome& o) {
      return eachCopied(o) || o.refusals.size() == static_cast<std::size_t>(ranks);
    });
    if (outcome.refusals.size() == static_cast<std::size_t>(ranks)) {
      WARN("this system does not let processes read each other (ptrace_scope?)");
      return;
    }
    CHECK(outcome.refusals.empty());
    INFO(ranks << " ranks");
    CHECK(eachCopied(outcome));
  }
}

// Proves: if one rank may not read from the start, only that rank receives through slots, and it
// logs that once for all its channels.
TEST_CASE("where the system refuses to read memory, slots are used, and the log says so once",
          "[private]") {
  constexpr int kRanks = 3, kVictim = 1;
  for (const int error : {EPERM, ENOSYS}) {
    const Outcome outcome = right(kRanks, "1 read " + std::to_string(error), [](const Outcome& o) {
      return !o.refusals.empty() && o.ends.at(0).reads > 0 && o.ends.at(2).reads > 0;
    });
    CHECK(outcome.refusals == std::map<int, int>{{kVictim, 1}});
    CHECK(outcome.ends.at(kVictim).reads == 0);
    CHECK(outcome.ends.at(0).reads > 0);
    CHECK(outcome.ends.at(2).reads > 0);
  }
  const Outcome all = right(kRanks, "-1 read " + std::to_string(EPERM),
                            [](const Outcome& o) { return o.refusals.size() == kRanks; });
  CHECK(all.refusals == std::map<int, int>{{0, 1}, {1, 1}, {2, 1}});
  for (const auto& [rank, end] : all.ends) CHECK(end.reads == 0);
}

// Proves: if only writing is forbidden, the receiver copies alone.
TEST_CASE("a rank that may not write the memory of others does not share copies", "[private]") {
  const Outcome outcome = right(2, "0 write " + std::to_string(EPERM),
                                [](const Outcome& o) { return o.ends.at(1).reads > 0; });
  CHECK(outcome.refusals.empty());
  CHECK(outcome.ends.at(0).writes == 0);
  CHECK(outcome.ends.at(1).reads > 0);
}

// Proves: messages from a rank whose memory no other may read go through slots. The test makes the
// process undumpable, because ptrace_scope 2, which has the same effect, is set for the whole
// system.
TEST_CASE("messages from a rank that no other may read go through slots", "[private]") {
  const Outcome outcome = right(3, "1 undumpable", [](const Outcome& o) {
    return o.refusals.size() == 2 && o.ends.at(1).reads > 0 && copiesOf(o, 0, 2) > 0;
  });
  if (!outcome.able) {
    WARN("skipped: the ranks cannot give up their privileges");
    return;
  }
  CHECK(outcome.refusals == std::map<int, int>{{0, 1}, {2, 1}});
  CHECK(outcome.ends.at(1).reads > 0); // it may read others
  CHECK(copiesOf(outcome, 0, 2) > 0);
}

// Proves: a user namespace forbids reading in one direction only, and the other one still reads.
TEST_CASE("a rank in another user namespace reads no other rank, but others read it", "[private]") {
  const Outcome outcome = right(3, "1 namespace", [](const Outcome& o) {
    return o.refusals.size() == 1 && o.ends.at(0).reads > 0;
  });
  if (!outcome.able) {
    WARN("skipped: no user namespace here");
    return;
  }
  CHECK(outcome.refusals == std::map<int, int>{{1, 1}});
  CHECK(outcome.ends.at(1).reads == 0);
  CHECK(outcome.ends.at(0).reads > 0);
}

// Proves: ranks whose users have the same id, but in different user namespaces, use tcp, since
// shm refuses connections between users. The other ranks use shm.
TEST_CASE("a rank of another user, which has the same id in its user namespace, is reached by tcp",
          "[private]") {
  const Outcome outcome = run(3, "1 stranger", "shm,tcp");
  if (!outcome.able) {
    WARN("skipped: no user namespace here, or this is not root");
    return;
  }
  INFO(outcome.log);
  REQUIRE(outcome.ends.size() == 3);
  for (const auto& [rank, end] : outcome.ends) CHECK(end.wrong == "");
  CHECK(outcome.log.find("[rank 0] INFO rank 1 is reached by tcp") != std::string::npos);
  CHECK(outcome.log.find("[rank 0] INFO rank 2 is reached by shm") != std::string::npos);
}

// Proves: if reading is refused in the middle of a program, no message is lost, and the rank logs
// it once.
TEST_CASE("if reading is refused later, messages go through slots from then on", "[private]") {
  for (const int ranks : kWholeGrid ? std::vector<int>{2, 3} : std::vector<int>{3}) {
    const Outcome outcome =
        right(ranks, "1 later", [](const Outcome& o) { return !o.refusals.empty(); });
    INFO(ranks << " ranks\n" << outcome.log);
    CHECK(outcome.refusals == std::map<int, int>{{1, 1}});
  }
}

} // namespace rondo::test
