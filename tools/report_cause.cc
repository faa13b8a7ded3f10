// Compares the failures of a job's communicators.
//
// A failure is a consequence of an earlier one if both name the same rank of the job, the later one
// says that this rank is gone or gave up, it came within ten seconds, and the report blames the
// rank for the earlier one. Times are compared only within a process that recorded both failures,
// and all such processes must agree: clocks of machines may differ, and dumps are made at different
// times. If this is not certain, the report treats a failure as independent. A failure that names
// another rank is always independent; its text mentions the failure before it.
#include "tools/report_cause.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

namespace rondo::tools {

namespace {

/// After a failure its culprit closes its other communicators, or ends, within this time. Later it
/// may have another reason.
constexpr std::int64_t kSoon = 10'000'000'000;

struct Span {
  std::int64_t first = 0, last = 0;
};

/// A communicator whose failure names a rank that the report blames.
struct Failed {
  const std::string* communicator;
  const RecordedFailure* failure;
  bool only; ///< the report blames no other rank, and found no other reason
  std::map<std::pair<std::string, std::uint64_t>, Span> times = {}; ///< by process
  const Failed* cause = nullptr;

  const Failed& root() const {
    const Failed* first = this;
    while (first->cause) first = first->cause;
    return *first;
  }
};

/// Nothing if the ranks do not know of the same failure.
std::optional<Failed> failedOf(const std::string& id, const RecordedRanks& ranks,
                               const std::vector<Finding>& found) {
  Failed all{&id, nullptr, true};
  for (const auto& [number, rank] : ranks) {
    if (!rank.failure) continue;
    const RecordedFailure& one = *rank.failure;
    if (!all.failure) all.failure = &one;
    if (one.code != all.failure->code || one.culprit_in_job != all.failure->culprit_in_job)
      return std::nullopt;
    const auto [at, fresh] =
        all.times.try_emplace({rank.process, rank.began}, Span{one.time, one.time});
    at->second = {std::min(at->second.first, one.time), std::max(at->second.last, one.time)};
  }
  if (!all.failure || all.failure->culprit_in_job < 0) return std::nullopt;
  bool blamed = false;
  for (const Finding& one : found) {
    blamed = blamed || one.culprit == all.failure->culprit;
    if (one.kind == "differs" || (one.culprit >= 0 && one.culprit != all.failure->culprit))
      all.only = false;
  }
  return blamed ? std::optional(std::move(all)) : std::nullopt;
}

/// How long after the first failure the second one came; nothing if that is not certain, or if it
/// was not soon.
std::optional<std::int64_t> soonAfter(const Failed& first, const Failed& second) {
  std::optional<std::int64_t> longest;
  for (const auto& [process, later] : second.times) {
    const auto found = first.times.find(process);
    if (found == first.times.end()) continue;
    const Span& earlier = found->second;
    if (earlier.first == 0 || earlier.last >= later.first || later.last - earlier.first > kSoon)
      return std::nullopt;
    longest = std::max(longest.value_or(0), later.last - earlier.first);
  }
  return longest;
}

/// Whether the failure says that its culprit is gone or gave up, which another failure may cause.
bool isEnd(const RecordedFailure& failure) {
  return failure.code == "peer_dead" || failure.code == "unresponsive" || failure.code == "aborted";
}

bool follows(const Failed& second, const Failed& first) {
  // timeout and transport do not prove that their culprit is the cause. An abort has a reason,
  // which an earlier peer_dead must not hide.
  const std::string& code = first.failure->code;
  const bool explains = code != "timeout" && code != "transport" &&
                        (code != "peer_dead" || second.failure->code != "aborted");
  return explains && second.only && isEnd(*second.failure) &&
         first.failure->culprit_in_job == second.failure->culprit_in_job &&
         soonAfter(first, second);
}

/// Leaves one finding, which blames no rank.
void markConsequence(std::vector<Finding>& found, const Failed& failed) {
  const auto own = std::find_if(found.begin(), found.end(),
                                [](const Finding& one) { return one.kind == "failure"; });
  Finding one = *own;
  one.kind = "consequence";
  one.culprit = -1;
  one.text.insert(one.text.find(':'), " for the same reason as communicator " +
                                          *failed.root().communicator + ", which failed first");
  std::erase_if(found, [](const Finding& other) { return other.culprit >= 0; });
  std::erase_if(found, [](const Finding& other) { return other.kind == "failure"; });
  found.push_back(std::move(one));
}

/// Says which communicator had failed before, for another rank.
void addEarlier(std::vector<Finding>& found, const Failed& failed, const std::vector<Failed>& all) {
  const Failed* first = nullptr;
  std::int64_t longest = 0;
  for (const Failed& other : all)
    if (const auto after = soonAfter(other, failed); after > longest && isEnd(*failed.failure))
      first = &other, longest = *after;
  if (!first || first->failure->culprit_in_job == failed.failure->culprit_in_job) return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.3f", static_cast<double>(longest) * 1e-9);
  for (Finding& one : found)
    if (one.kind == "failure")
      one.text += std::string("; it may be a consequence: communicator ") + *first->communicator +
                  " had failed " + seconds + " s before";
}

} // namespace

std::map<std::string, std::vector<Finding>> judgeAll(const Dumps& dumps) {
  std::map<std::string, std::vector<Finding>> all;
  std::vector<Failed> failed;
  for (const auto& [id, ranks] : dumps.communicators) {
    const std::vector<Finding>& found = all[id] = judge(dumps, id);
    if (auto one = failedOf(id, ranks, found)) failed.push_back(std::move(*one));
  }
  for (Failed& second : failed)
    for (const Failed& first : failed)
      if (!second.cause && &first.root() != &second && follows(second, first))
        second.cause = &first;
  for (const Failed& one : failed)
    one.cause ? markConsequence(all[*one.communicator], one)
              : addEarlier(all[*one.communicator], one, failed);
  return all;
}

} // namespace rondo::tools
