// Finds the straggler from how long each rank was in the calls that all ranks made.
//
// In a collective that needs every rank, the last rank that enters finds the others' data there: it
// spends the least time in the call, and the others spend longer by as much as it was late. Each
// rank's times are differences of its own clock, so clocks need not agree. The lag of a call is the
// second least time minus the least, so that it only counts what one rank alone costs all others. A
// rank is a straggler if it was the last one in nine of ten of the last 32 calls, and its lags are
// a quarter of the time that passed, and a millisecond on average: below that it is the scheduler's
// order.
#include "tools/report_straggler.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

namespace rondo::tools {

namespace {

constexpr std::size_t kLeastCalls = 8, kMostCalls = 32;
constexpr double kLeastLag = 1e6;
/// Calls that seem to take longer, in nanoseconds, do not count: eleven days.
constexpr double kLongest = 1e15;

bool needsAll(const RecordedCall& call) {
  for (const char* name : {"AllReduce", "ReduceScatter", "AllGather", "AllToAll", "Barrier"})
    if (call.name == name) return true;
  return false;
}

struct Times {
  std::map<int, double> inside; ///< by rank: nanoseconds in the call
  double begin = std::numeric_limits<double>::max(), end = 0;
  const RecordedCall* call = nullptr;
};

/// The last calls that all ranks have completed, by number.
std::map<std::uint64_t, Times> completedByAll(const RecordedRanks& ranks, int size) {
  std::map<std::uint64_t, Times> calls;
  for (const auto& [number, rank] : ranks)
    for (const RecordedCall& call : rank.calls) {
      if (!call.completed || call.p2p || !needsAll(call)) continue;
      // Files may say anything, and the difference must fit.
      if (call.created < 0 || call.ended < call.created) continue;
      const auto inside = static_cast<double>(call.ended - call.created);
      if (inside > kLongest) continue;
      Times& times = calls[call.sequence];
      times.inside[number] = inside;
      // Of one rank, since the clocks of others may differ.
      if (number == ranks.begin()->first)
        times.begin = static_cast<double>(call.created),
        times.end = static_cast<double>(call.ended);
      times.call = &call;
    }
  std::erase_if(calls, [&](const auto& one) {
    return one.second.inside.size() != static_cast<std::size_t>(size);
  });
  while (calls.size() > kMostCalls) calls.erase(calls.begin());
  return calls;
}

} // namespace

std::optional<Finding> findStraggler(const RecordedRanks& ranks, int size) {
  const auto calls = completedByAll(ranks, size);
  if (size < 2 || calls.size() < kLeastCalls) return std::nullopt;
  std::map<int, std::size_t> last;
  std::map<int, double> lags;
  double begin = std::numeric_limits<double>::max(), end = 0;
  for (const auto& [sequence, times] : calls) {
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto latest = std::min_element(times.inside.begin(), times.inside.end(), less);
    double second = std::numeric_limits<double>::max();
    for (const auto& [rank, inside] : times.inside)
      if (rank != latest->first) second = std::min(second, inside);
    ++last[latest->first];
    lags[latest->first] += second - latest->second;
    begin = std::min(begin, times.begin);
    end = std::max(end, times.end);
  }
  const auto most = std::max_element(lags.begin(), lags.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  const auto [rank, lag] = *most;
  const auto count = static_cast<double>(calls.size());
  if (last[rank] * 10 < calls.size() * 9 || lag * 4 < end - begin || lag < count * kLeastLag)
    return std::nullopt;
  const double share = lag / std::max(end - begin, lag);
  char text[160];
  std::snprintf(text, sizeof(text),
                "rank %d is a straggler: it entered %zu of the last %zu calls last, and the others "
                "waited for it for %.0f%% of the time; the last call was ",
                rank, last[rank], calls.size(), 100 * share);
  return Finding{"straggler", rank, text + calls.rbegin()->second.call->text()};
}

} // namespace rondo::tools
