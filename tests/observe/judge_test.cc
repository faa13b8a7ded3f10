// `rondo report` on dumps that are written here: whom it blames, and whom it must not. Longer than
// 500 lines, because it is one list of independent cases that write dumps in the same way.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kNow = 1'700'000'000'000'000'000, kSecond = 1'000'000'000;

/// An all-reduce that began five seconds ago. If it was completed, this was four seconds ago.
json collective(int number, const std::string& state, int count = 10) {
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
    lines.push_back({{"rondo_dump", 2},
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

std::vector<json> calls(const std::string& state, int count = 10) {
  return {collective(1, "completed"), collective(2, state, count)};
}
json failed(const std::string& code, int culprit) {
  return {{"code", code},
          {"culprit", culprit},
          {"culprit_in_job", culprit},
          {"failed_ns", 0}, // unknown
          {"text", "a text"}};
}

// Proves: a rank that left without making the call in which the others wait is blamed for that
// call; the failure says only that it left.
TEST_CASE("report: a rank that closed the communicator is blamed for the call that it left out") {
  const json left = failed("peer_dead", 2);
  const Job job(3, {{.rank = 0, .calls = calls("started"), .idle = 5, .failure = left},
                    {.rank = 1, .calls = calls("started"), .idle = 5, .failure = left},
                    {.rank = 2, .calls = {collective(1, "completed")}, .open = false}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector{2});
  CHECK(job.findings().find("has closed the communicator and never entered") != std::string::npos);
}

// Proves: after a mismatch the rank that the failure names is blamed, not those whose dumps are
// older than the call that differs.
TEST_CASE("report: ranks whose dumps are older than a mismatch, or missing, are not called late") {
  const json differs = failed("mismatch", 2);
  for (const int size : {3, 4}) { // rank 3 has no dump
    const Job job(size, {{.rank = 0, .calls = {collective(1, "completed")}},
                         {.rank = 1, .calls = calls("started"), .idle = 5, .failure = differs},
                         {.rank = 2, .calls = {collective(1, "completed")}}});
    INFO(job.findings());
    CHECK(job.culprits() == std::vector{2});
    CHECK(job.findings().find("never entered") == std::string::npos);
  }
}

// Proves: a dead rank is reported as dead, not as late, also if its dump was made before its death
// and the others' dumps while they were still in the call.
TEST_CASE("report: a rank that died while the dumps were made is not called late") {
  const json death = failed("peer_dead", 2);
  const Job job(3, {{.rank = 0, .calls = calls("started"), .idle = 5, .failure = death},
                    {.rank = 1, .calls = calls("started"), .idle = 5, .failure = death},
                    {.rank = 2, .calls = {collective(1, "completed")}}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector{2});
  CHECK(job.findings().find("never entered") == std::string::npos);
  CHECK(job.text().find("the communicator failed: peer_dead: a text; ranks 0, 1 were in AllReduce "
                        "#2 (sum of 10 float), which rank 2 had not entered") != std::string::npos);
}

/// A process's rank in a communicator, and the failure that it recorded there.
struct Member {
  std::string communicator;
  int rank = 0;
  json failure = nullptr;
};

/// A failure that names a rank of the communicator, which is `in_job` in the job.
json failedAt(double seconds, const std::string& code, int culprit, int in_job) {
  json failure = failed(code, culprit);
  failure["culprit_in_job"] = in_job;
  failure["failed_ns"] = static_cast<std::int64_t>(seconds * kSecond);
  return failure;
}

std::vector<json> linesOf(const Job& job, int process, const std::vector<Member>& members) {
  std::vector<json> lines = {job.linesOf({process})[0]};
  for (const Member& one : members) {
    std::vector<json> more =
        job.linesOf({.rank = one.rank, .calls = calls("failed"), .failure = one.failure});
    more[1]["communicator"] = one.communicator;
    lines.insert(lines.end(), more.begin() + 1, more.end());
  }
  return lines;
}

using Blamed = std::vector<std::pair<std::string, int>>; ///< communicator and rank of it

Blamed blamedIn(const Job& job) {
  Blamed all;
  const json page = job.report();
  for (const json& one : page.at("culprits")) all.emplace_back(one["communicator"], one["rank"]);
  return all;
}

// Proves: of failures that name the same rank of the job, the first is the cause; in doubt, each
// is.
TEST_CASE("report: a failure that follows from another communicator's is a consequence") {
  // Rank 2 of the job has no dump. It is rank 2 of "c", and rank 0 of "d".
  const auto c = [](double seconds, const char* code = "peer_dead") {
    return failedAt(seconds, code, 2, 2);
  };
  const auto d = [](double seconds, const char* code = "peer_dead") {
    return failedAt(seconds, code, 0, 2);
  };
  struct Case {
    const char* what;
    json c0, d0, c1, d1; ///< as processes 0 and 1 know them
    Blamed blamed;
  };
  const Blamed both = {{"c", 2}, {"d", 0}};
  for (const Case& one : {
           Case{"the same death", c(1), d(1.1), c(1), d(1.1), {{"c", 2}}},
           Case{"in the other order", c(1.1), d(1), c(1.1), d(1), {{"d", 0}}},
           Case{"clocks differ by hours", c(9000), d(9001), c(1), d(1.1), {{"c", 2}}},
           Case{"it differed, and gave up",
                c(1, "mismatch"),
                d(2, "aborted"),
                c(1, "mismatch"),
                d(2, "aborted"),
                {{"c", 2}}},
           Case{"one process knows both", c(1), d(1.1), nullptr, d(0.1), {{"c", 2}}},
           Case{"the processes disagree", c(1), d(1.1), c(1.1), d(1), both},
           Case{"no process knows both", c(1), nullptr, nullptr, d(1.1), both},
           Case{"unknown times", c(0), d(1.1), c(0), d(1.1), both},
           Case{"at the same time", c(1), d(1), c(1), d(1), both},
           Case{"its reason is heard of later", c(1), d(1.1, "aborted"), c(1), d(1.1, "aborted"),
                both},
           Case{"much later", c(1), d(60), c(1), d(60), both},
           Case{"a cause of its own", c(1), d(1.1, "mismatch"), c(1), d(1.1, "mismatch"), both},
           Case{"the first is a guess", c(1, "timeout"), d(1.1), c(1, "timeout"), d(1.1), both},
           Case{"the ranks tell of different failures", c(1), failedAt(1.1, "peer_dead", 1, 1),
                c(1), d(1.1), both},
       }) {
    INFO(one.what);
    Job job(3, {});
    job.write(linesOf(job, 0, {{"c", 0, one.c0}, {"d", 2, one.d0}}), 0);
    job.write(linesOf(job, 1, {{"c", 1, one.c1}, {"d", 1, one.d1}}), 1);
    const std::string text = job.text();
    INFO(text);
    CHECK(blamedIn(job) == one.blamed);
    const std::string root = one.blamed[0].first;
    CHECK(countOf(text, "\n  the communicator failed for the same reason as communicator " + root +
                            ", which failed first: ") == (one.blamed == both ? 0 : 1));
    CHECK(countOf(text, "the communicator failed") == 2); // none is passed over in silence
  }
}

TEST_CASE("report: independent failures of two communicators are two culprits") {
  for (const int culprit : {0, 1, 2}) { // of "d"; 2 is the number that the other rank has in "c"
    INFO(culprit);
    Job job(3, {});
    const json first = failedAt(1, "peer_dead", 2, 2);
    const json second = failedAt(1.5, "peer_dead", culprit, culprit == 2 ? 0 : 3);
    for (const int rank : {0, 1})
      job.write(linesOf(job, rank, {{"c", rank, first}, {"d", rank, second}}), rank);
    const std::string text = job.text();
    INFO(text);
    CHECK(blamedIn(job) == Blamed{{"c", 2}, {"d", culprit}});
    CHECK(text.find("; it may be a consequence: communicator c had failed 0.500 s before\n") !=
          std::string::npos);
    CHECK(countOf(text, "consequence") == 1);
  }
}

// Process 0 knows "a" and "b", process 1 knows "b" and "c": as in a grid of ranks.
TEST_CASE("report: a consequence of a consequence names the first failure") {
  Job job(3, {});
  const auto failure = [](double seconds) { return failedAt(seconds, "peer_dead", 2, 2); };
  job.write(linesOf(job, 0, {{"a", 0, failure(1)}, {"b", 0, failure(1.1)}}), 0);
  job.write(linesOf(job, 1, {{"b", 1, failure(5.1)}, {"c", 1, failure(5.2)}}), 1);
  INFO(job.text());
  CHECK(blamedIn(job) == Blamed{{"a", 2}});
  CHECK(countOf(job.text(),
                "for the same reason as communicator a, which failed first: peer_dead") == 2);
}

TEST_CASE("report: circular times leave a culprit") {
  Job job(3, {});
  const auto failure = [](double seconds) { return failedAt(seconds, "peer_dead", 2, 2); };
  job.write(linesOf(job, 0, {{"a", 0, failure(1)}, {"b", 0, failure(2)}}), 0);
  job.write(linesOf(job, 1, {{"b", 1, failure(1)}, {"c", 1, failure(2)}}), 1);
  job.write(linesOf(job, 3, {{"c", 0, failure(1)}, {"a", 1, failure(2)}}), 3);
  INFO(job.text());
  CHECK(blamedIn(job).size() == 1);
}

TEST_CASE("report: an old dump, of this job or of another one, hides no culprit") {
  Job job(3, {});
  const json now = failedAt(5000, "peer_dead", 2, 2), old = failedAt(1, "aborted", 2, 2);
  for (const int rank : {0, 1}) job.write(linesOf(job, rank, {{"d", rank, now}}), rank);
  auto lines = linesOf(job, 0, {{"c", 0, failedAt(4999.9, "aborted", 2, 2)}});
  for (json& line : lines)
    if (line.contains("job")) line["job"] = "k";
  job.write(lines, 7);
  INFO(job.text());
  CHECK(blamedIn(job) == Blamed{{"d", 2}});
  CHECK(job.text().find("refused: rondo-vm-7.jsonl: of another job, k") != std::string::npos);
  // Rank 2 gave up "c" long ago, and the job went on.
  lines = linesOf(job, 0, {{"c", 0, old}});
  lines[0]["time_ns"] = kNow - 4000 * kSecond;
  job.write(lines, 7);
  INFO(job.text());
  CHECK(blamedIn(job) == Blamed{{"c", 2}, {"d", 2}});
}

TEST_CASE("report: after a rank's death the dead rank is blamed, and not one that computes") {
  const json death = failed("peer_dead", 2);
  const Job job(4, {{0, calls("failed"), 0.01, death},
                    {1, {collective(1, "completed")}, 0, death},
                    {3, calls("failed"), 0, death}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{2});
  CHECK(job.findings().find("never entered") == std::string::npos);
}

TEST_CASE("report: a failure that names a rank says in which call the others were") {
  const json death = failed("peer_dead", 2);
  const Rank busy{1, {collective(1, "completed")}, 0, death};
  const std::string text = "peer_dead: a text; ranks 0, 3 were in AllReduce #2 (sum of 10 float)";
  const Job gone(4, {{0, calls("failed"), 0, death}, busy, {3, calls("failed"), 0, death}});
  INFO(gone.findings());
  CHECK(gone.findings().find(text + "\"") != std::string::npos);
  CHECK(gone.report().at("culprits").at(0).at("text").get<std::string>().ends_with(text));
  // Its record is still there.
  const Rank late{2, {collective(1, "completed")}};
  const Job known(4, {{0, calls("failed"), 0, death}, busy, late, {3, calls("failed"), 0, death}});
  INFO(known.findings());
  CHECK(known.findings().find(text + ", which rank 2 had not entered\"") != std::string::npos);
  // A call that was refused before the failure was not ended by it.
  json refused = collective(1, "failed"), ended = collective(3, "failed");
  refused["time_completed_ns"] = kNow - 5 * kSecond;
  const Job other(4, {{0, {refused, collective(2, "completed"), ended}, 0, death},
                      {1, {refused, collective(2, "completed"), ended}, 0, death},
                      {3, {refused, collective(2, "completed")}, 0, death}});
  INFO(other.findings());
  CHECK(other.findings().find("ranks 0, 1 were in AllReduce #3") != std::string::npos);
}

TEST_CASE(
    "report: a timeout that blames a rank which waits itself names none, and says who waits") {
  const json late = failed("timeout", 1);
  const Job job(2, {{0, calls("failed"), 5, late}, {1, calls("failed"), 5, late}});
  INFO(job.findings());
  CHECK(job.culprits().empty());
  CHECK(job.findings().find("every rank has entered its call, but nothing moves: rank 0 waits for "
                            "rank 1, rank 1 waits for rank 0") != std::string::npos);
}

TEST_CASE("report: a slow call, in which something moves, is no fault") {
  // Ranks 0 and 1 are in a call for five seconds; rank 2 has not entered it yet.
  const std::vector<json> before = {collective(1, "completed")};
  const Job slow(3, {{0, calls("started"), 0.2}, {1, calls("started")}, {2, before}});
  INFO(slow.findings());
  CHECK(slow.culprits().empty());
  const Job stands(3, {{0, calls("started"), 1.5}, {1, calls("started"), 1.5}, {2, before}});
  CHECK(stands.culprits() == std::vector<int>{2});
}

TEST_CASE("report: a rank that ended a call just now is not late, unless others wait for long") {
  std::vector<json> before = {collective(1, "completed")};
  const auto culprits = [&](double idle, std::int64_t ended) {
    before[0]["time_completed_ns"] = kNow - ended;
    const Job job(3, {{0, calls("started"), idle}, {1, calls("started"), idle}, {2, before}});
    INFO(job.findings());
    if (job.culprits().empty()) CHECK(job.findings() == "[]");
    return job.culprits();
  };
  CHECK(culprits(1.5, kSecond / 2).empty());
  CHECK(culprits(1.5, 2 * kSecond) == std::vector<int>{2});
  CHECK(culprits(3.5, kSecond / 2) == std::vector<int>{2});
}

TEST_CASE("report: if no call has the most ranks, the difference blames none") {
  const json mismatch = failed("mismatch", 1);
  const Job two(2, {{0, calls("failed"), 0, mismatch}, {1, calls("failed", 9), 0, mismatch}});
  INFO(two.findings());
  CHECK(two.culprits().empty());
  CHECK(two.findings().find("rank 1 calls AllReduce #2 (sum of 9 float) where rank 0 calls "
                            "AllReduce #2 (sum of 10 float): count 9 instead of 10") !=
        std::string::npos);
  const Job four(4, {{0, calls("started", 9)},
                     {1, calls("started")},
                     {2, calls("started")},
                     {3, calls("started", 9)}});
  CHECK(four.culprits().empty());
  CHECK(four.findings().find("ranks 1, 2 call AllReduce") != std::string::npos);
  const Job three(3, {{0, calls("started", 9)}, {1, calls("started")}, {2, calls("started")}});
  CHECK(three.culprits() == std::vector<int>{0});
}

/// 20 all-reduces of a rank, one each 10 ms. `late`: by how much it entered each after the others.
std::vector<json> steps(const std::vector<double>& late) {
  std::vector<json> all;
  for (std::size_t i = 0; i < 20; ++i) {
    const auto end = kNow - kSecond + static_cast<std::int64_t>(i) * 10'000'000;
    json call = collective(static_cast<int>(i) + 1, "completed");
    call["time_created_ns"] =
        end - 6'000'000 + static_cast<std::int64_t>(late[i % late.size()] * 1e6);
    call["time_completed_ns"] = end;
    all.push_back(call);
  }
  return all;
}

TEST_CASE(
    "report: a straggler is the rank that is late in call after call, and not a waiting one") {
  const std::vector<json> early = steps({0});
  const Job job(3, {{0, early}, {1, steps({5.5})}, {2, early}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{1});
  CHECK(job.findings().find("rank 1 is a straggler: it entered 20 of the last 20 calls last") !=
        std::string::npos);
  // Late by turns, late for a short part of the time, and late together with another one.
  CHECK(Job(3, {{0, steps({0, 5})}, {1, steps({5, 0})}, {2, early}}).culprits().empty());
  CHECK(Job(3, {{0, early}, {1, steps({2})}, {2, early}}).culprits().empty());
  CHECK(Job(3, {{0, early}, {1, steps({5})}, {2, steps({5.2})}}).culprits().empty());
  // Calls that claim to have taken three years, or less than no time, do not count.
  std::vector<json> years = early;
  for (json& call : years)
    call["time_created_ns"] =
        call["time_completed_ns"].get<std::int64_t>() - 100'000'000'000'000'000;
  CHECK(Job(3, {{0, years}, {1, early}, {2, years}}).culprits().empty());
  CHECK(Job(3, {{0, early}, {1, steps({1e6})}, {2, early}}).culprits().empty());
}

/// What a link between two ranks' hosts carried in the last second. A connection in the other
/// direction, for heartbeats, exists too.
struct Carried {
  int from = 0, to = 0;
  double megabytes = 0, busy = 0; ///< busy: the part of the second
  bool queued = false;
  double round_trip = 0; ///< milliseconds, for 1448 bytes; 0: unknown
};

/// A job of these ranks that use these links, of 100 MB/s.
Job jobWithLinks(std::vector<Rank> ranks, const std::vector<Carried>& links) {
  for (Rank& rank : ranks)
    for (const Carried& link : links)
      for (const bool sends : {true, false})
        if ((sends ? link.from : link.to) == rank.rank)
          rank.links.push_back(
              {{"from", std::to_string(rank.rank)},
               {"to", std::to_string(sends ? link.to : link.from)},
               {"bytes", sends ? static_cast<int>(link.megabytes * 1e6) : 200},
               {"busy_ns", sends ? static_cast<int>(link.busy * kSecond) : 0},
               {"total", sends ? 1'000'000'000 : 1'000'000},
               {"average", sends ? 100'000'000 : 20'000},
               {"segment_rate",
                sends && link.round_trip > 0 ? static_cast<int>(1.448e6 / link.round_trip) : 0},
               {"queued", sends && link.queued}});
  return {static_cast<int>(ranks.size()), ranks};
}
/// All ranks have made these calls.
Job jobWithLinks(int size, const std::vector<Carried>& links,
                 const std::vector<json>& made = calls("started")) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back({rank, made});
  return jobWithLinks(std::move(ranks), links);
}

TEST_CASE("report: the rank whose links are all slow is blamed, not its neighbours in the ring") {
  const Job job = jobWithLinks(
      4, {{0, 1, 0.5, 0.01}, {1, 2, 0.5, 0.98, true}, {2, 3, 0.5, 0.98, true}, {3, 0, 0.5, 0.01}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{2});
  CHECK(job.findings().find("the network of rank 2 is slow, for example from rank 1 to rank 2: "
                            "0.51 MB/s, where the median of the others is 100 MB/s; the ranks are "
                            "in AllReduce #2 (sum of 10 float)") != std::string::npos);
}

TEST_CASE("report: a neighbour of the slow rank is not blamed if its other link seems slow") {
  // The kernel counts a link's time in ticks, which are long for few messages.
  for (const Carried& ticks : {Carried{0, 1, 0.05, 0.04}, Carried{0, 1, 0.5, 0.15}}) {
    const Job ring = jobWithLinks(
        4, {ticks, {1, 2, 0.5, 0.98, true}, {2, 3, 0.2, 0.4, true}, {3, 0, 0.5, 0.01}});
    INFO(ring.findings());
    CHECK(ring.culprits() == std::vector<int>{2});
  }
  const Job link = jobWithLinks(
      4, {{0, 1, 0.05, 0.04}, {1, 2, 0.5, 0.98, true}, {2, 3, 5, 0.01}, {3, 0, 5, 0.01}});
  CHECK(link.findings().find("the link from rank 1 to rank 2 is slow") != std::string::npos);
}

TEST_CASE("report: one slow link is blamed with both of its ranks") {
  const Job job = jobWithLinks(
      4, {{0, 1, 0.5, 0.01}, {1, 2, 0.5, 0.98, true}, {2, 3, 0.5, 0.01}, {3, 0, 0.5, 0.01}});
  INFO(job.findings());
  CHECK(job.findings().find("the link from rank 1 to rank 2 is slow: 0.51 MB/s") !=
        std::string::npos);
  const json culprits = job.report()["culprits"];
  REQUIRE(culprits.size() == 1);
  CHECK(culprits[0]["rank"] == 1);
  CHECK(culprits[0]["peer"] == 2);
}

TEST_CASE("report: if no rank is in a call, a slow link is blamed with the last call") {
  std::vector<json> ended = calls("completed");
  ended[1]["time_completed_ns"] = kNow;
  const Job job = jobWithLinks(
      3, {{0, 1, 5, 0.05}, {1, 0, 5, 0.05}, {2, 0, 0.3, 0.6, true}, {0, 2, 0.3, 0.6, true}}, ended);
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{2});
  CHECK(job.findings().find("; the last call was AllReduce #2 (sum of 10 float)") !=
        std::string::npos);
}

TEST_CASE(
    "report: a rank that never entered is blamed also if a link is slow, and not one that the "
    "link holds up") {
  const std::vector<json> waits = calls("started");
  const auto job = [&](const std::vector<json>& late) {
    return jobWithLinks(
        {{0, waits, 2}, {1, waits, 2}, {2, waits, 2}, {3, late}},
        {{0, 1, 0.5, 0.01}, {1, 2, 0.5, 0.98, true}, {2, 3, 0.5, 0.01}, {3, 0, 0.5, 0.01}});
  };
  const Job absent = job({collective(1, "completed")});
  INFO(absent.findings());
  CHECK(absent.culprits() == std::vector<int>{3});
  CHECK(absent.findings().find("rank 3 never entered AllReduce #2") != std::string::npos);
  const Job held_up = job({collective(1, "started")});
  INFO(held_up.findings());
  CHECK(held_up.culprits() == std::vector<int>{1});
  CHECK(held_up.findings().find("the link from rank 1 to rank 2 is slow") != std::string::npos);
}

TEST_CASE("report: links that could not be measured are a warning for ranks that use TCP") {
  Job job(2, {{0, calls("started")}, {1, calls("started")}});
  auto lines = job.linesOf({1, calls("started")});
  lines[0].erase("links");
  lines[0]["links_error"] = "a reason";
  job.write(lines, 1);
  CHECK(job.report()["warnings"].empty()); // it uses shared memory
  lines[1]["transports"] = "shm, tcp";
  job.write(lines, 1);
  CHECK(job.report()["warnings"] == json::array({"links are not measured: a reason"}));
  CHECK(job.text().find("\nwarning: links are not measured: a reason\n") != std::string::npos);
}

TEST_CASE("report: of three ranks the one whose links are slow is blamed") {
  const Job job = jobWithLinks(
      3, {{0, 1, 5, 0.05}, {1, 0, 5, 0.05}, {2, 0, 0.3, 0.6, true}, {0, 2, 0.3, 0.6, true}});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{2});
}

TEST_CASE("report: the only link of a job is slow below 10 Mb/s, if the hosts are near") {
  const auto job = [](const Carried& link) { return jobWithLinks(2, {link}); };
  const Job slow = job({0, 1, 0.5, 0.98, true, 0.2});
  INFO(slow.findings());
  CHECK(
      slow.findings().find("the link from rank 0 to rank 1 is slow: 0.51 MB/s, less than 10 Mb/s; "
                           "no other link carries data; the ranks are in AllReduce #2 (sum of 10 "
                           "float)") != std::string::npos);
  const json culprits = slow.report()["culprits"];
  REQUIRE(culprits.size() == 1);
  CHECK(culprits[0]["rank"] == 0);
  CHECK(culprits[0]["peer"] == 1);
  CHECK(job({0, 1, 1.1, 0.98, true, 0.2}).culprits() == std::vector<int>{0});
  CHECK(job({0, 1, 1.3, 0.98, true, 0.2}).culprits().empty());  // above 10 Mb/s
  CHECK(job({0, 1, 0.5, 0.98, true, 5}).culprits().empty());    // a segment for each trip
  CHECK(job({0, 1, 0.5, 0.98, true}).culprits().empty());       // an unknown distance
  CHECK(job({0, 1, 0.5, 0.98, false, 0.2}).culprits().empty()); // acknowledged late
  CHECK(job({0, 1, 0.1, 0.3, true, 0.2}).culprits().empty());   // for a short part of the time
  CHECK(jobWithLinks(2, {{0, 1, 0.5, 0.98, true, 0.2}}, {}).culprits().empty()); // in no call
  // A root that sends to both others: each link carries half of what its network carries.
  const auto root = [](double each) {
    return jobWithLinks(3, {{0, 1, each, 0.98, true, 0.2}, {0, 2, each, 0.98, true, 0.2}});
  };
  CHECK(root(0.4).culprits() == std::vector<int>{0});
  CHECK(root(0.8).culprits().empty());
}

TEST_CASE("report: processes of one number on one host are told apart by when they began") {
  const json link{
      {"from", "0"},      {"to", "1"},          {"bytes", 300'000},        {"busy_ns", kSecond},
      {"total", 1000000}, {"average", 300'000}, {"segment_rate", 7000000}, {"queued", true}};
  json other = link, back = link;
  other["bytes"] = 600'000;
  back["from"] = "1", back["to"] = "0", back["bytes"] = back["busy_ns"] = 0, back["queued"] = false;
  Job job(3, {{2, calls("started"), 0, nullptr, true, json::array({back})}});
  // Ranks 0 and 1 share a host and its link, and have process 1 of two namespaces.
  for (const int rank : {0, 1}) {
    auto lines = job.linesOf(
        {rank, calls("started"), 0, nullptr, true, json::array({rank == 0 ? link : other})});
    lines[0]["pid"] = 1;
    lines[0]["began_ns"] = 1000 + rank;
    job.write(lines, rank);
  }
  INFO(job.findings());
  CHECK(job.findings().find("from ranks 0, 1 to rank 2 is slow: 0.9 MB/s") != std::string::npos);
}

TEST_CASE("report: no link is blamed that is slow for another reason, or holds up no call") {
  const auto none = [](const Job& job) {
    INFO(job.findings());
    CHECK(job.culprits().empty());
  };
  const Carried fast{1, 2, 50, 0.6, true}, back{2, 1, 50, 0.6, true};
  // Two hosts: there is nothing to compare with.
  none(jobWithLinks(2, {{0, 1, 0.5, 0.98, true}, {1, 0, 0.5, 0.98, true}}));
  // Seven ranks send to rank 0 at the same time.
  std::vector<Carried> all{fast, back};
  for (int rank = 1; rank < 8; ++rank) all.push_back({rank, 0, 10, 0.98, true});
  none(jobWithLinks(8, all));
  // Small messages, which are acknowledged late.
  none(jobWithLinks(3, {fast, back, {0, 1, 0.01, 0.98}, {1, 0, 0.01, 0.98}}));
  // For a short part of the time.
  none(jobWithLinks(3, {fast, back, {0, 1, 0.1, 0.3, true}, {1, 0, 0.1, 0.3, true}}));
  // All links are as slow.
  none(jobWithLinks(3, {{0, 1, 0.5, 0.9, true}, {1, 2, 0.5, 0.9, true}, {2, 0, 0.5, 0.9, true}}));
  // The ranks are in no call: something else uses the link.
  none(jobWithLinks(3, {fast, back, {0, 1, 0.5, 0.98, true}}, {}));
}

TEST_CASE("report: a process that ended is dead if it left the communicator open and others live") {
  const auto ended = [](Job& job, int rank, const std::vector<json>& calls) {
    auto lines = job.linesOf({rank, calls});
    lines[0]["state"] = "X";
    job.write(lines, rank);
  };
  Job job(3, {{0, calls("started")}, {1, calls("started")}});
  ended(job, 2, {collective(1, "completed")});
  INFO(job.findings());
  CHECK(job.culprits() == std::vector<int>{2});
  CHECK(job.findings().find("rank 2 died: its process, vm:102, has ended after AllReduce #") !=
        std::string::npos);
  ended(job, 0, calls("started"));
  ended(job, 1, calls("started"));
  CHECK(job.culprits().empty()); // the job was ended
}

TEST_CASE("report: several ranks without dumps are one finding without a culprit") {
  const Job job(4, {{0, calls("started"), 2}, {3, calls("started"), 2}});
  INFO(job.findings());
  CHECK(job.culprits().empty());
  CHECK(job.report()["communicators"][0]["findings"].size() == 1);
  CHECK(job.findings().find("ranks 1, 2 have no dump here") != std::string::npos);
}

TEST_CASE("report: a rank that is stopped in a call is blamed, also if the others have no dump") {
  const json none = nullptr, links = json::array();
  const Job alone(4, {{2, calls("started"), 0, none, true, links, "T"}});
  CHECK(alone.culprits() == std::vector<int>{2});
  const std::string why =
      "rank 2 is stopped (SIGSTOP, or a debugger) in AllReduce #2 (sum of 10 "
      "float)";
  CHECK(alone.findings().find(why + "\"") != std::string::npos);
  CHECK(alone.text().find("\n    ranks 0, 1, 3: no dump here") != std::string::npos);
  // It waits itself, so another rank is to blame.
  const Job waits(4, {{2, calls("started"), 5, none, true, links, "T"}});
  CHECK(waits.culprits().empty());
  const Job two(4, {{1, calls("started"), 0, none, true, links, "T"},
                    {2, calls("started"), 0, none, true, links, "T"}});
  CHECK(two.culprits() == std::vector<int>{1, 2});
  const Job all(3, {{0, calls("started"), 5},
                    {1, calls("started"), 5},
                    {2, calls("started"), 0, none, true, links, "T"}});
  CHECK(all.culprits() == std::vector<int>{2});
  CHECK(all.findings().find(why + ", where ranks 0, 1 wait") != std::string::npos);
}

TEST_CASE("report: a rank that waits in no call says when its last call ended, or what it posted") {
  json posted{{"record_id", 1},
              {"p2p_seq_id", 1},
              {"is_p2p", true},
              {"profiling_name", "rondo:Recv"},
              {"count", 3},
              {"dtype", "float"},
              {"peer", 1},
              {"state", "started"},
              {"time_created_ns", kNow}};
  json later = posted;
  later["record_id"] = 2;
  const Job job(3, {{0, {posted}},
                    {1, {collective(1, "completed"), later}},
                    {2, {collective(1, "completed")}, 0, nullptr, false}});
  const std::string text = job.text();
  INFO(text);
  CHECK(text.find("waits in no call; it has posted Recv #1 (3 float) from rank 1") !=
        std::string::npos);
  CHECK(text.find("in no call; the last one, AllReduce #1 (sum of 10 float), ended 4.0 s ago") !=
        std::string::npos);
  CHECK(text.find("closed the communicator after collective #1") != std::string::npos);
}

TEST_CASE("report: files of others cannot steer the terminal, nor use much memory") {
  Job job(3, {{0, calls("started")}});
  auto lines = job.linesOf({1, calls("started")});
  lines[0]["host"] = "a\x1b[2Jb\xc2\x9b";
  lines[1]["waits"] = {{{"record_id", 2}, {"peer", 0}, {"idle_ns", 5}, {"text", "x\ry\n"}}};
  job.write(lines, 1);
  lines = job.linesOf({2, calls("started")});
  lines[1]["transports"] = std::string(70'000, 'x');
  job.write(lines, 5);
  int number = 6;
  for (const json& time : {json(-1), json(std::uint64_t{1} << 63), json(1e300)}) {
    lines = job.linesOf({2, calls("started")});
    lines[2]["time_created_ns"] = time;
    job.write(lines, number++);
  }
  for (const char* field : {"rondo_dump", "pid"}) {
    lines = job.linesOf({2, calls("started")});
    lines[0][field] = "nested";
    job.write(lines, number);
    std::string file = readFile(job.name(number));
    file.replace(file.find("\"nested\""), 8, std::string(30'000, '[') + std::string(30'000, ']'));
    std::ofstream(job.name(number++)) << file;
  }
  const std::string text = job.text();
  INFO(text);
  CHECK(text.find("impossible rondo_dump") != std::string::npos);
  CHECK(text.find("impossible pid") != std::string::npos);
  for (const char control : {'\x1b', '\r', '\x9b'}) CHECK(text.find(control) == std::string::npos);
  CHECK(text.find("rank 1, a?[2Jb??:101: ") != std::string::npos);
  CHECK(text.find("rondo-vm-5.jsonl: line 2 is longer than 64 KiB") != std::string::npos);
  CHECK(countOf(text, "impossible time_created_ns") == 3);
}

} // namespace
} // namespace rondo::test
