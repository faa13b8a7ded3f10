// Dumps that a test writes, and what `rondo report` says of them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

using nlohmann::json;

inline constexpr std::int64_t kNow = 1'700'000'000'000'000'000, kSecond = 1'000'000'000;

/// An all-reduce that began five seconds ago. If it was completed, this was four seconds ago.
inline json collective(int number, const std::string& state, int count = 10) {
  json call{{"record_id", number},
            {"collective_seq_id", number},
            {"is_p2p", false},
            {"profiling_name", "rondo:AllReduce"},
            {"count", count},
            {"dtype", "float"},
            {"op", "sum"},
            {"state", state},
            {"time_created_ns", kNow - 5 * kSecond}};
  if (state != "started") call["time_completed_ns"] = state == "failed" ? kNow : kNow - 4 * kSecond;
  return call;
}

struct Rank {
  int rank = 0;
  std::vector<json> calls = {};
  double idle = 0; ///< seconds without progress in the last call; 0: it does not wait
  json failure = nullptr;
  bool open = true;
  json links = json::array(); ///< of a second
  const char* state = "S";    ///< of the process: sleeps; "T": is stopped
};

/// A folder with one dump for each rank of a communicator.
class Job {
 public:
  Job(int size, const std::vector<Rank>& ranks) : size_(size) {
    for (const Rank& rank : ranks) write(linesOf(rank), rank.rank);
  }

  std::vector<json> linesOf(const Rank& rank) const {
    std::vector<json> lines;
    lines.push_back({{"rondo_dump", 1},
                     {"host", "vm"},
                     {"pid", 100 + rank.rank},
                     {"state", rank.state},
                     {"time_ns", kNow},
                     {"links_ns", kSecond},
                     {"links", rank.links}});
    json head{{"communicator", "c"},
              {"job", "j"},
              {"rank", rank.rank},
              {"size", size_},
              {"open", rank.open},
              {"transports", "shm"},
              {"entered", rank.calls.size()},
              {"waits", json::array()}};
    if (!rank.failure.is_null()) head["failure"] = rank.failure;
    if (rank.idle > 0)
      head["waits"].push_back({{"record_id", rank.calls.size()},
                               {"peer", (rank.rank + 1) % size_},
                               {"idle_ns", static_cast<std::int64_t>(rank.idle * kSecond)},
                               {"text", "lane 0"}});
    lines.push_back(head);
    lines.insert(lines.end(), rank.calls.begin(), rank.calls.end());
    return lines;
  }

  void write(const std::vector<json>& lines, int number) {
    std::ofstream file(name(number));
    for (const json& line : lines) file << line.dump() << "\n";
    file << json{{"end", true}, {"lines", lines.size() + 1}}.dump() << "\n";
  }

  std::string name(int number) const {
    return folder_.file("rondo-vm-" + std::to_string(number) + ".jsonl");
  }
  json report() const { return json::parse(shell("$RONDO report --json " + folder_.file("")).out); }
  std::string text() const { return shell("$RONDO report " + folder_.file("")).out; }
  std::string findings() const { return report().at("communicators").at(0).at("findings").dump(2); }
  /// The ranks that are blamed.
  std::vector<int> culprits() const {
    std::vector<int> all;
    const json page = report();
    for (const json& one : page.at("culprits")) all.push_back(one.at("rank"));
    return all;
  }

 private:
  const TemporaryFolder folder_;
  const int size_;
};

inline std::vector<json> calls(const std::string& state, int count = 10) {
  return {collective(1, "completed"), collective(2, state, count)};
}
inline json failed(const std::string& code, int culprit) {
  return {{"code", code}, {"culprit", culprit}, {"text", "a text"}};
}

} // namespace rondo::test
