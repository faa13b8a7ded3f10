// `rondo plan --check`: proves plans of many rank counts, on all cores.
#include "tools/plan_check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>

#include "rondo/error.h"
#include "tools/threads.h"

namespace rondo::tools {

namespace {

constexpr std::size_t kShownViolations = 3; ///< specs per pair
constexpr int kAllRootsUpTo = 8;

std::vector<int> roots(Collective collective, int ranks) {
  if (!hasRoot(collective)) return {0};
  std::vector<int> chosen;
  if (ranks <= kAllRootsUpTo) {
    for (int root = 0; root < ranks; ++root) chosen.push_back(root);
    return chosen;
  }
  return {0, 1, ranks / 2, ranks - 1};
}

std::vector<int> parameters(const plan::Choice& choice, int ranks) {
  if (choice.parameter != 0) return {choice.parameter};
  std::vector<int> chosen = {0, 1, 2, 3, 4};
  if (ranks > chosen.back()) chosen.push_back(ranks);
  return chosen;
}

constexpr int kAllLayoutsUpTo = 16;

/// The given layouts that have this number of ranks; if none were given, the empty layout.
std::vector<plan::Layout> layoutsOf(const std::vector<plan::Layout>& layouts, int ranks) {
  if (layouts.empty()) return {plan::Layout{}};
  std::vector<plan::Layout> fitting;
  for (const plan::Layout& layout : layouts)
    if (std::ssize(layout.groups.front()) == ranks) fitting.push_back(layout);
  return fitting;
}

std::string specText(const plan::Spec& spec) {
  std::string text = "p=" + std::to_string(spec.ranks);
  if (hasRoot(spec.collective)) text += " root=" + std::to_string(spec.root);
  if (spec.parameter != 0) text += " parameter=" + std::to_string(spec.parameter);
  if (!spec.layout.groups.empty()) text += " layout=" + plan::text(spec.layout);
  return text;
}

void checkOne(const PlanPair& pair, const plan::Spec& spec, std::mutex& mutex,
              PairVerdict& verdict) {
  std::string violation;
  plan::ReductionOrder order;
  try {
    const plan::Report report = plan::check(*pair.algorithm, spec);
    if (!report.ok()) violation = report.text();
    order = report.reduction;
  } catch (const std::exception& error) {
    violation = error.what(); // the plan cannot be built or read
  }
  std::lock_guard lock(mutex);
  ++verdict.plans;
  verdict.rank_order = verdict.rank_order && order.rank_order;
  verdict.agrees = verdict.agrees && order.agrees;
  if (violation.empty()) return;
  ++verdict.violating;
  if (verdict.violations.size() < kShownViolations) {
    verdict.violations.push_back(specText(spec) + ": " + violation);
  }
}

} // namespace

std::vector<PlanPair> pairsToCheck(const std::vector<plan::Choice>& choices,
                                   const std::vector<Collective>& collectives,
                                   const std::vector<int>& ranks,
                                   const std::vector<plan::Layout>& layouts) {
  std::vector<PlanPair> pairs;
  for (const plan::Choice& choice : choices) {
    for (const Collective collective : collectives) {
      PlanPair pair{choice.algorithm, collective, {}};
      for (const int p : ranks)
        for (const plan::Layout& layout : layoutsOf(layouts, p))
          for (const int root : roots(collective, p))
            for (const int parameter : parameters(choice, p)) {
              const plan::Spec spec{.collective = collective,
                                    .ranks = p,
                                    .root = root,
                                    .parameter = parameter,
                                    .layout = layout,
                                    .inner = choice.inner,
                                    .outer = choice.outer,
                                    .multicast = true};
              if (choice.algorithm->supports(spec)) pair.specs.push_back(spec);
            }
      if (!pair.specs.empty()) pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

std::vector<plan::Layout> layoutsToCheck(const std::string& text, const std::vector<int>& ranks) {
  if (text.empty()) return {};
  if (text != "all") {
    const plan::Layout layout = plan::parseLayout(text);
    const auto made = std::ssize(layout.groups.front());
    if (std::ranges::find(ranks, made) == ranks.end())
      throw Error(ErrorCode::invalid_argument, "layout '" + text + "' has " + std::to_string(made) +
                                                   " ranks, a number that -p does not include");
    return {layout};
  }
  std::vector<plan::Layout> layouts;
  for (const int p : ranks) {
    if (p > kAllLayoutsUpTo)
      throw Error(ErrorCode::invalid_argument, "--layout all of " + std::to_string(p) +
                                                   " ranks is too many; valid: up to " +
                                                   std::to_string(kAllLayoutsUpTo));
    for (int cuts = 0; cuts < 1 << (p - 1); ++cuts) { // bit i: a node ends after rank i
      std::vector<int> nodes{0};
      for (int r = 1; r < p; ++r) nodes.push_back(nodes.back() + (cuts >> (r - 1) & 1));
      layouts.push_back({{nodes}});
    }
  }
  return layouts;
}

void checkPairs(const std::vector<PlanPair>& pairs, int threads,
                const std::function<void(const PlanPair&, const PairVerdict&)>& report) {
  struct Task {
    std::size_t pair, spec;
  };
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t j = 0; j < pairs[i].specs.size(); ++j) tasks.push_back({i, j});
  }
  std::vector<PairVerdict> verdicts(pairs.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex; // protects the verdicts and the next variable
  std::size_t reported = 0;

  onThreads(threads, [&](int) {
    for (std::size_t i = next.fetch_add(1); i < tasks.size(); i = next.fetch_add(1)) {
      const PlanPair& pair = pairs[tasks[i].pair];
      checkOne(pair, pair.specs[tasks[i].spec], mutex, verdicts[tasks[i].pair]);
      std::lock_guard lock(mutex);
      while (reported < pairs.size() && verdicts[reported].plans == pairs[reported].specs.size()) {
        report(pairs[reported], verdicts[reported]);
        ++reported;
      }
    }
  });
}

std::string verdictText(const PlanPair& pair, const PairVerdict& verdict) {
  int fewest = pair.specs.front().ranks, most = fewest;
  for (const plan::Spec& spec : pair.specs) {
    fewest = std::min(fewest, spec.ranks);
    most = std::max(most, spec.ranks);
  }
  const std::string span =
      fewest == most ? std::to_string(most) : std::to_string(fewest) + "-" + std::to_string(most);
  std::array<char, 256> line;
  std::string text(pair.algorithm->name);
  const std::string collective(name(pair.collective));
  const std::string counted =
      std::to_string(verdict.plans) + (verdict.plans == 1 ? " plan" : " plans");
  std::string result =
      verdict.violating == 0 ? "proved" : std::to_string(verdict.violating) + " VIOLATE";
  if (verdict.violating == 0 && reduces(pair.collective)) {
    result += verdict.rank_order ? ", reduces in rank order"
              : verdict.agrees   ? ", equal on all ranks"
                                 : ", may differ between ranks by rounding";
  }
  std::snprintf(line.data(), line.size(), "%-18s %-14s %7s ranks %11s  %s", text.c_str(),
                collective.c_str(), span.c_str(), counted.c_str(), result.c_str());
  text = line.data();
  for (const std::string& violation : verdict.violations) text += "\n    " + violation;
  return text;
}

} // namespace rondo::tools
