// Predicts all candidates at a few sizes, and takes the fastest at each size between them.
#include "planner/decide.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/simulate.h"
#include "planner/site.h"
#include "planner/suitability.h"

namespace rondo::planner {

namespace {

constexpr int kParameters[] = {2, 3, 4};

/// Sizes of a block at which times are predicted. Between them they are interpolated: a time is
/// nearly a + b n there.
constexpr std::array<std::size_t, 9> kKnots{8,         512,       2 << 10, 8 << 10, 32 << 10,
                                            128 << 10, 512 << 10, 4 << 20, 32 << 20};
/// A step of the plans is repeated for each tile; after a few the time grows evenly.
constexpr std::size_t kMostTiles = 4;
constexpr std::size_t kLargest = std::size_t{64} << 20; ///< one decision for all larger blocks

struct Candidate {
  plan::Choice choice;
  std::array<double, kKnots.size()> seconds{}; ///< at kKnots

  double at(std::size_t bytes) const {
    std::size_t above = 1;
    while (above + 1 < kKnots.size() && kKnots[above] < bytes) ++above;
    const auto from = static_cast<double>(kKnots[above - 1]);
    const auto to = static_cast<double>(kKnots[above]);
    const double share = (static_cast<double>(bytes) - from) / (to - from);
    return seconds[above - 1] + share * (seconds[above] - seconds[above - 1]);
  }
};

std::vector<Candidate> predicted(const plan::Spec& spec, const Policy& policy,
                                 const model::Network& network, plan::PlanCache& plans) {
  std::vector<Candidate> result;
  for (const plan::Choice& choice : candidates(spec)) {
    if (!Suitability(spec, 0, policy, plans)(choice)) continue;
    const model::Simulation simulation(*choice.algorithm, choice.applied(spec), network);
    Candidate& candidate = result.emplace_back();
    candidate.choice = choice;
    for (std::size_t i = 0; i < kKnots.size(); ++i)
      candidate.seconds[i] =
          simulation.seconds({.bytes = static_cast<double>(kKnots[i])}, kMostTiles);
  }
  return result;
}

/// The fastest candidate at each size; in a tie the rules' choice.
std::vector<Table::Entry> fastest(const std::vector<Candidate>& candidates, const plan::Spec& spec,
                                  const Policy& rules, plan::PlanCache& plans) {
  std::vector<Table::Entry> entries;
  for (std::size_t bytes = 4; bytes <= kLargest && !candidates.empty(); bytes *= 2) {
    const Candidate& best = *std::min_element(
        candidates.begin(), candidates.end(),
        [&](const Candidate& a, const Candidate& b) { return a.at(bytes) < b.at(bytes); });
    const std::string name = choose(spec, bytes, rules, plans).text();
    const auto same = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& one) { return one.choice.text() == name; });
    const bool tie = same != candidates.end() && same->at(bytes) <= best.at(bytes) * (1 + kTie);
    entries.push_back({bytes + bytes / 2, tie ? same->choice : best.choice});
  }
  return entries;
}

} // namespace

std::vector<plan::Choice> candidates(const plan::Spec& spec) {
  std::vector<plan::Choice> result;
  for (const plan::Algorithm* algorithm : plan::algorithms()) {
    if (algorithm->supports(spec)) result.push_back({algorithm, 0});
    for (const int parameter : kParameters)
      if (const plan::Choice choice{algorithm, parameter};
          parameter < spec.ranks && algorithm->supports(choice.applied(spec)))
        result.push_back(choice);
  }
  return result;
}

Table decide(int ranks, const Policy& policy, const model::Profile& profile) {
  Table table;
  if (ranks < 2 || ranks > kMostDecidedRanks || policy.devices) return table;
  const SiteNetwork site(policy.site, profile);
  Policy rules = policy;
  rules.table = nullptr;
  rules.rules_file = nullptr;
  rules.algorithms.clear();
  for (const Collective collective : kDecided) {
    const plan::Spec spec{.collective = collective, .ranks = ranks, .layout = policy.layout};
    plan::PlanCache plans(0);
    table.set(collective,
              fastest(predicted(spec, rules, site.network(), plans), spec, rules, plans));
  }
  return table;
}

} // namespace rondo::planner
