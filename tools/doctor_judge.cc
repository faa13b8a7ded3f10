// Compares ranks and links with the median of their kind, and names those that are far from it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "tools/doctor_job.h"
#include "tools/report_judge.h"

namespace rondo::tools {

namespace {

/// A rank, host or pair is slow below this part of its kind's median: on a busy machine good links
/// differ by factors of 3 to 7.
constexpr double kSlow = 1.0 / 8;
/// Those below this part are measured again. If no pair was measured alone, they are slow.
constexpr double kSuspicious = 1.0 / 4;
/// Ranks with less than this part of the others' processor time are starved.
constexpr double kStarved = 0.6;
constexpr std::int64_t kSkew = 100'000'000; ///< nanoseconds

/// The upper median, so that of two values the larger one is the reference.
double medianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of a processor's time.
double medianShare(const std::vector<RankFacts>& ranks) {
  std::vector<double> shares;
  for (const RankFacts& rank : ranks) shares.push_back(rank.share);
  return medianOf(std::move(shares));
}

std::string rateText(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), bytes < 1e9 ? "%.0f MB/s" : "%.1f GB/s",
                bytes < 1e9 ? bytes * 1e-6 : bytes * 1e-9);
  return text;
}

std::string joined(const std::set<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
  return text;
}

/// The median bandwidth of each group, which is a node or a rank.
template <class Group>
class Scores {
 public:
  /// `bandwidths`: by group, of the pairs that involve a member of it.
  explicit Scores(std::map<Group, std::vector<double>> bandwidths) {
    std::vector<double> all;
    for (auto& [group, values] : bandwidths)
      all.push_back(medians_[group] = medianOf(std::move(values)));
    median_ = medianOf(std::move(all));
  }
  std::size_t groups() const { return medians_.size(); }
  double of(const Group& group) const { return medians_.at(group); }
  double median() const { return median_; }
  std::set<Group> slow(double part) const {
    std::set<Group> found;
    for (const auto& [group, median] : medians_)
      if (median < part * median_) found.insert(group);
    return found;
  }

 private:
  std::map<Group, double> medians_;
  double median_ = 0;
};

/// Judges the pairs of one way, without those that a slow host or rank explains.
class LinkJudge {
 public:
  LinkJudge(const std::vector<RankFacts>& ranks, const LinkFacts& links,
            const std::vector<int>& ignored)
      : ranks_(ranks), way_(links.way) {
    // If some pairs were measured alone, only those count.
    alone_ = std::any_of(links.pairs.begin(), links.pairs.end(),
                         [](const PairFacts& pair) { return pair.alone; });
    const std::set<int> without(ignored.begin(), ignored.end());
    for (const PairFacts& pair : links.pairs)
      if (pair.alone == alone_ && !without.contains(pair.a) && !without.contains(pair.b))
        pairs_.push_back(pair);
  }

  std::vector<DoctorFinding> run() { return run(alone_ ? kSlow : kSuspicious); }
  /// `part`: below this part of the median something is slow.
  std::vector<DoctorFinding> run(double part) {
    part_ = part;
    judgeNodes();
    judgeRanks();
    return std::move(found_);
  }

 private:
  const RankFacts& factsOf(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  void add(std::string text, const char* remedy) {
    found_.push_back({false, "link", std::move(text), remedy});
  }
  void judgeNodes() {
    std::map<std::string, std::vector<double>> bandwidths;
    for (const PairFacts& pair : pairs_)
      if (factsOf(pair.a).node != factsOf(pair.b).node)
        for (const int rank : {pair.a, pair.b})
          bandwidths[factsOf(rank).node].push_back(pair.bandwidth);
    const Scores nodes(std::move(bandwidths));
    if (nodes.groups() < 3) return;
    const std::set<std::string> slow = nodes.slow(part_);
    for (const std::string& node : slow) {
      std::vector<int> members;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (ranks_[r].node == node) members.push_back(static_cast<int>(r));
      add("host " + factsOf(members.front()).host + " (" + ranksText(members) + ") moves " +
              rateText(nodes.of(node)) + " by " + way_ + ", where the median of the " +
              std::to_string(nodes.groups()) + " hosts is " + rateText(nodes.median()),
          "look at this interface's cable, port and speed (ethtool INTERFACE), or leave it out by "
          "RONDO_SOCKET_IFNAME=^INTERFACE");
    }
    std::erase_if(pairs_, [&](const PairFacts& pair) {
      return slow.contains(factsOf(pair.a).node) || slow.contains(factsOf(pair.b).node);
    });
  }
  void judgeRanks() {
    std::map<int, std::vector<double>> bandwidths;
    for (const PairFacts& pair : pairs_)
      for (const int rank : {pair.a, pair.b}) bandwidths[rank].push_back(pair.bandwidth);
    const Scores single(std::move(bandwidths));
    if (single.groups() < 3) return;
    const std::set<int> slow = single.slow(part_);
    for (const int rank : slow)
      add("rank " + std::to_string(rank) + " on host " + factsOf(rank).host + " moves " +
              rateText(single.of(rank)) + " by " + way_ + ", where the median of the ranks is " +
              rateText(single.median()),
          "look for other programs on its processors (top), and for its place (rondo topo)");
    for (const PairFacts& pair : pairs_) {
      const double usual = std::min(single.of(pair.a), single.of(pair.b));
      if (slow.contains(pair.a) || slow.contains(pair.b) || pair.bandwidth >= part_ * usual)
        continue;
      add("between rank " + std::to_string(pair.a) + " (" + factsOf(pair.a).host + ") and rank " +
              std::to_string(pair.b) + " (" + factsOf(pair.b).host + ") " +
              rateText(pair.bandwidth) + " pass by " + way_ + ", but " + rateText(usual) +
              " between them and other ranks",
          factsOf(pair.a).node == factsOf(pair.b).node
              ? "look for other programs on their processors (top), and for their places (rondo "
                "topo)"
              : "look at the route between these hosts (ip route get ADDRESS)");
    }
  }

  const std::vector<RankFacts>& ranks_;
  const std::string& way_;
  bool alone_ = false;
  double part_ = kSlow;
  std::vector<PairFacts> pairs_;
  std::vector<DoctorFinding> found_;
};

} // namespace

std::vector<DoctorFinding> judgeLinks(const std::vector<RankFacts>& ranks, const LinkFacts& links,
                                      const std::vector<int>& ignored) {
  return LinkJudge(ranks, links, ignored).run();
}

bool suspicious(const std::vector<RankFacts>& ranks, const LinkFacts& links) {
  return !LinkJudge(ranks, links, {}).run(kSuspicious).empty();
}

std::set<int> ranksToRepeat(const std::vector<RankFacts>& ranks, const LinkFacts& links) {
  constexpr std::size_t kSmall = 16, kFew = 8;
  const std::size_t most = ranks.size() <= kSmall ? kSmall : kFew;
  std::set<int> chosen;
  const auto nodeOf = [&](int rank) { return ranks[static_cast<std::size_t>(rank)].node; };
  const auto add = [&](int rank) {
    if (chosen.size() < most) chosen.insert(rank);
  };
  const int all = static_cast<int>(ranks.size());
  std::vector<PairFacts> pairs = links.pairs;
  std::sort(pairs.begin(), pairs.end(),
            [](const PairFacts& a, const PairFacts& b) { return a.bandwidth < b.bandwidth; });
  const bool within = std::all_of(pairs.begin(), pairs.end(), [&](const PairFacts& pair) {
    return nodeOf(pair.a) == nodeOf(pair.b);
  });
  if (ranks.size() > kSmall && !within) {
    std::set<std::string> nodes;
    for (int rank = 0; rank < all; ++rank)
      if (nodes.insert(nodeOf(rank)).second) chosen.insert(rank);
    return chosen;
  }
  for (const PairFacts& pair : pairs) {
    if (chosen.size() == most) break;
    add(pair.a);
    add(pair.b);
    for (int rank = 0; rank < all; ++rank)
      if (nodeOf(rank) == nodeOf(pair.a)) add(rank);
  }
  return chosen;
}

std::vector<int> starved(const std::vector<RankFacts>& ranks) {
  const double usual = medianShare(ranks);
  std::vector<int> found;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].share < kStarved * usual) found.push_back(static_cast<int>(r));
  return found;
}

std::vector<DoctorFinding> judgeJob(const JobFacts& job) {
  std::vector<DoctorFinding> found;
  const auto named = [&](const std::vector<int>& members) {
    std::set<std::string> hosts;
    for (const int rank : members) hosts.insert(job.ranks[static_cast<std::size_t>(rank)].host);
    return ranksText(members) + " on " + joined(hosts) + ": ";
  };
  std::map<std::pair<std::string, std::string>, std::vector<int>> same; // of local checks
  std::map<std::string, std::vector<int>> versions, libraries;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const DoctorFinding& one : job.ranks[r].findings) {
      auto& members = same[{one.name, one.text}];
      members.push_back(rank);
      if (members.size() == 1) found.push_back(one);
    }
    versions[job.ranks[r].version].push_back(rank);
    libraries[job.ranks[r].libraries].push_back(rank);
  }
  for (DoctorFinding& one : found) one.text = named(same[{one.name, one.text}]) + one.text;
  const auto differ = [&](const auto& groups, const std::string& what) {
    std::string text;
    for (const auto& [value, members] : groups)
      text += (text.empty() ? "" : "; ") + ranksText(members) + ": " + value;
    if (groups.size() > 1)
      found.push_back({false, "versions", what + " differ: " + text,
                       "install the same version on all machines"});
  };
  differ(versions, "the versions of Rondo");
  differ(libraries, "the versions of libraries");
  std::set<std::string> skewed;
  for (const RankFacts& rank : job.ranks) {
    const std::int64_t off = std::abs(rank.clock);
    if (off - rank.clock_error < kSkew || !skewed.insert(rank.host).second) continue;
    char text[96];
    std::snprintf(text, sizeof(text), "'s clock is %.1f s %s that of rank 0's host",
                  static_cast<double>(off) * 1e-9, rank.clock > 0 ? "ahead of" : "behind");
    found.push_back({false, "clocks", "host " + rank.host + text,
                     "start an NTP client, such as chrony, on all hosts"});
  }
  const std::vector<int> slow = starved(job.ranks);
  const double usual = medianShare(job.ranks);
  for (const int rank : slow) {
    const RankFacts& facts = job.ranks[static_cast<std::size_t>(rank)];
    char text[128];
    std::snprintf(text, sizeof(text),
                  " gets %.0f %% of a processor's time, where the median is %.0f %%",
                  100 * facts.share, 100 * usual);
    found.push_back({false, "processor time",
                     "rank " + std::to_string(rank) + " on host " + facts.host + text,
                     "end the programs that share its processors (top), raise its control group's "
                     "limit, or bind ranks to other processors (RONDO_BIND)"});
  }
  for (const LinkFacts& links : job.links)
    for (DoctorFinding& one : judgeLinks(job.ranks, links, slow)) found.push_back(std::move(one));
  for (const DoctorFinding& one : job.failed) found.push_back(one);
  return found;
}

} // namespace rondo::tools
