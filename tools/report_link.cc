// Finds slow links from what the kernels of the hosts count.
//
// In a ring every rank waits for another one. On the slow link data are in flight: the sender has
// sent them, the receiver has room for them, and they are not acknowledged. The kernel counts for
// how long a link was busy in this sense. Bytes divided by that time are the speed of a link,
// whatever the ranks did meanwhile. A link is slow if its speed is less than a twelfth of the
// median speed of the links between other hosts. Links share a host's network: if n links of a host
// are busy at once (the sum of their busy fractions), a slow link must be n times slower than that.
//
// A slow link alone is no finding, because the data of a small message also wait for a delayed ACK.
// At a reading of the counters, one of the host's slow links must have had unsent data or more than
// two unacknowledged segments; and these links must have been busy for half of the time. The host
// whose slow links were busy for the longest time together is named first. If both hosts of a link
// have no other slow link, the link itself is named. Links within a host are never slow.
//
// With two hosts there is no other link to compare with. Their link is slow if it carries less than
// 10 Mb/s, and so little that the distance of the hosts is not the cause: less than one segment in
// four of its shortest round trips, with more than two segments unacknowledged.
#include "tools/report_link.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace rondo::tools {

namespace {

constexpr double kSlower = 12, kLeastBusy = 0.5;
/// Links that were busy for a smaller part of the time, or carried fewer bytes, have no measured
/// speed: the kernel counts this time in ticks of up to 10 ms.
constexpr double kInUse = 0.1;
constexpr std::uint64_t kLeastBytes = 16 * 1024;
/// Links whose total bytes are less than this part of the largest total carry only heartbeats.
constexpr double kLeastShare = 0.01;
/// With no other link to compare with, a link below this is slow: 10 megabits per second.
constexpr double kSlowAlone = 10e6 / 8;
constexpr double kRoundTrips = 4; ///< that a healthy link needs for a segment, at most
/// A rank of a named host is in a call, or was in one during this last time, in nanoseconds.
constexpr std::int64_t kLately = 1'000'000'000;

using Ends = std::pair<std::string, std::string>; ///< two hosts, by their addresses
using Links = std::map<Ends, RecordedLink>;

bool touches(const Ends& ends, const std::string& host) {
  return ends.first == host || ends.second == host;
}

double speedOf(const RecordedLink& link) {
  return link.seconds > 0 ? static_cast<double>(link.bytes) / link.seconds : 0;
}

/// Of all links together; 1: the whole time, of one link.
double busyTime(const Links& links) {
  double sum = 0;
  for (const auto& [ends, link] : links) sum += link.busy;
  return sum;
}

class Network {
 public:
  explicit Network(const RecordedRanks& ranks) : ranks_(ranks) {
    std::set<std::pair<std::string, std::uint64_t>> processes;
    for (const auto& [number, rank] : ranks)
      for (const RecordedLink& link : rank.links) hosts_[link.from].insert(number);
    for (const auto& [number, rank] : ranks) {
      if (!processes.insert({rank.process, rank.began}).second) continue;
      for (const RecordedLink& link : rank.links)
        if (hosts_.contains(link.to)) add(link);
    }
    for (const auto& [ends, link] : links_)
      out_[ends.first] += link.busy, in_[ends.second] += link.busy,
          most_ = std::max(most_, static_cast<double>(link.total));
  }

  std::vector<Finding> slowLinks() {
    std::vector<Finding> found;
    std::map<std::string, Links> slow;
    for (const auto& [host, numbers] : hosts_)
      if (Links links = slowLinksOf(host); !links.empty()) slow[host] = std::move(links);
    while (!slow.empty()) {
      const auto most = std::max_element(slow.begin(), slow.end(), [](auto& a, auto& b) {
        return busyTime(a.second) < busyTime(b.second);
      });
      const Links links = most->second;
      if (found.size() < hosts_.size()) found.push_back(findingOf(most->first, links, slow));
      for (auto& [host, others] : slow)
        std::erase_if(others, [&](const auto& one) { return links.contains(one.first); });
      std::erase_if(slow, [&](const auto& one) { return !holdUp(one.first, one.second); });
    }
    return found;
  }

 private:
  void add(const RecordedLink& link) {
    RecordedLink& sum = links_[{link.from, link.to}];
    sum.bytes += link.bytes;
    sum.total += link.total;
    sum.busy = std::max(sum.busy, link.busy);
    sum.seconds = std::max(sum.seconds, link.seconds);
    sum.average = std::max(sum.average, link.average);
    sum.segment_rate = std::max(sum.segment_rate, link.segment_rate);
    sum.queued = sum.queued || link.queued;
  }

  /// The median speed of the links between other hosts that carry data (in a ring half of the
  /// links carry only heartbeats); 0: there are none.
  double usual(const std::string& host) const {
    std::vector<double> speeds;
    for (const auto& [ends, link] : links_) {
      if (touches(ends, host) || static_cast<double>(link.total) < most_ * kLeastShare) continue;
      const bool measured = link.queued && link.busy >= kLeastBusy;
      speeds.push_back(measured ? speedOf(link) : link.average);
    }
    if (speeds.empty()) return 0;
    const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>((speeds.size() - 1) / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    return *middle;
  }

  /// Whether the host's slow links hold up calls.
  bool holdUp(const std::string& host, const Links& slow) const {
    double out = 0, in = 0;
    bool queued = false;
    for (const auto& [ends, link] : slow) {
      (ends.first == host ? out : in) += link.busy;
      queued = queued || link.queued;
    }
    return queued && std::max(out, in) >= kLeastBusy && callOn(host);
  }

  /// The host's slow links; empty if they do not hold up calls.
  Links slowLinksOf(const std::string& host) const {
    const double usual_speed = usual(host);
    Links slow;
    for (const auto& [ends, link] : links_) {
      if (!touches(ends, host) || link.busy < kInUse || (link.bytes < kLeastBytes && !link.queued))
        continue;
      const double at_once = std::max({1.0, out_.at(ends.first), in_.at(ends.second)});
      const double most = usual_speed > 0 ? usual_speed / kSlower
                                          : std::min(kSlowAlone, link.segment_rate / kRoundTrips);
      if (speedOf(link) * at_once < most) slow[ends] = link;
    }
    return holdUp(host, slow) ? slow : Links();
  }

  /// The call that a rank on the host is in, or the last one; null: none lately.
  const RecordedCall* callOn(const std::string& host) const {
    for (const int number : hosts_.at(host)) {
      const RecordedRank& rank = ranks_.at(number);
      if (rank.ended) continue;
      if (const RecordedCall* const call = inFlight(rank)) return call;
      for (auto call = rank.calls.rbegin(); call != rank.calls.rend(); ++call)
        if (call->completed && rank.time - call->ended < kLately) return &*call;
    }
    return nullptr;
  }

  std::string ranksOn(const std::string& host) const {
    const std::set<int>& numbers = hosts_.at(host);
    return ranksText({numbers.begin(), numbers.end()});
  }

  Finding findingOf(const std::string& host, const Links& links,
                    const std::map<std::string, Links>& slow) const {
    const auto slowest = std::min_element(links.begin(), links.end(), [](auto& a, auto& b) {
      return speedOf(a.second) < speedOf(b.second);
    });
    const std::string &from = slowest->first.first, &to = slowest->first.second;
    const auto other = slow.find(from == host ? to : from);
    const bool one = std::all_of(links.begin(), links.end(), [&](const auto& link) {
      return touches(link.first, from) && touches(link.first, to);
    });
    const bool both = one && other != slow.end() && other->second.size() == links.size();
    std::array<char, 128> speeds{};
    const double speed = speedOf(slowest->second) * 1e-6, others = usual(host) * 1e-6;
    if (others > 0)
      std::snprintf(speeds.data(), speeds.size(),
                    ": %.3g MB/s, where the median of the others is %.3g MB/s", speed, others);
    else
      std::snprintf(speeds.data(), speeds.size(),
                    ": %.3g MB/s, less than 10 Mb/s; no other link carries data", speed);
    const std::string path = "from " + ranksOn(from) + " to " + ranksOn(to);
    const RecordedCall& last = *callOn(host);
    const std::string call =
        (last.completed ? "; the last call was " : "; the ranks are in ") + last.text();
    if (both)
      return {"slow_link", *hosts_.at(from).begin(),
              "the link " + path + " is slow" + speeds.data() + call, *hosts_.at(to).begin()};
    return {
        "slow_link", *hosts_.at(host).begin(),
        "the network of " + ranksOn(host) + " is slow, for example " + path + speeds.data() + call};
  }

  const RecordedRanks& ranks_;
  std::map<std::string, std::set<int>> hosts_; ///< their ranks
  Links links_;
  std::map<std::string, double> out_, in_; ///< links in use at the same time, on average
  double most_ = 0;                        ///< most bytes that one link has carried
};

} // namespace

std::vector<Finding> findSlowLinks(const RecordedRanks& ranks) {
  return Network(ranks).slowLinks();
}

} // namespace rondo::tools
