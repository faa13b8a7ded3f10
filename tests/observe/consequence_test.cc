// `rondo report` on dumps of jobs with several communicators: which failure is the cause.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "judged_job.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// The lines of a rank's dump, with a second communicator, "d", of the same ranks.
std::vector<json> withSecond(const Job& job, const Rank& rank, const json& failure) {
  std::vector<json> lines = job.linesOf(rank);
  Rank again = rank;
  again.calls = {collective(1, "completed")};
  again.open = true;
  again.failure = failure;
  for (json& line : job.linesOf(again)) {
    if (line.contains("rondo_dump")) continue;
    if (line.contains("communicator")) line["communicator"] = "d";
    lines.push_back(line);
  }
  return lines;
}

TEST_CASE("report: a rank that dies after another communicator failed is no culprit") {
  const json different = failed("mismatch", 1);
  const json death{{"code", "peer_dead"}, {"culprit", 0}, {"text", "rank 0 died: its process"}};
  struct Case {
    const char* what;
    json first, second; ///< the failures of "c" and "d", as rank 0 knows them
    bool open;          ///< rank 0 has not closed "c"
    std::vector<std::pair<std::string, int>> culprits;
  };
  for (const Case& one :
       {Case{"it dies of the failure", different, nullptr, true, {{"c", 1}}},
        Case{"it went on after the failure", different, nullptr, false, {{"c", 1}, {"d", 0}}},
        Case{"it lives, and its connection broke", different, death, true, {{"c", 1}, {"d", 0}}},
        Case{"it dies without a failure before", nullptr, nullptr, true, {{"c", 1}, {"d", 0}}}}) {
    INFO(one.what);
    Job job(3, {});
    job.write(
        withSecond(job,
                   {.rank = 0, .calls = calls("failed"), .failure = one.first, .open = one.open},
                   one.second),
        0);
    for (const int rank : {1, 2})
      job.write(
          withSecond(
              job,
              {.rank = rank, .calls = calls("failed", rank == 1 ? 999 : 10), .failure = different},
              death),
          rank);
    const json page = job.report();
    INFO(page.dump(2));
    std::vector<std::pair<std::string, int>> culprits;
    for (const json& found : page.at("culprits"))
      culprits.emplace_back(found.at("communicator"), found.at("rank"));
    CHECK(culprits == one.culprits);
    const bool consequence = job.text().find(
                                 "failed as a consequence of the failure of "
                                 "communicator c: peer_dead: rank 0 died") != std::string::npos;
    CHECK(consequence == (one.culprits.size() == 1));
  }
}

} // namespace
} // namespace rondo::test
