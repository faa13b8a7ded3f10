// Runs the checks in order; those of deadlock and closed_form are here.
#include "plan/check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/log.h"
#include "plan/bundle.h"
#include "plan/check_parts.h"
#include "plan/graph.h"
#include "rondo/error.h"

namespace rondo::plan {
namespace {

void checkDeadlock(const Graph& graph, std::vector<int> depths, const Violations& violations,
                   Report& report) {
  std::sort(depths.begin(), depths.end());
  const std::vector<std::uint32_t> bundled = bundledNodes(graph);
  bool proved = false; // more slots only remove edges: what holds at a depth holds at larger depths
  for (const int depth : depths) {
    if (!proved) {
      const auto order = graph.order(depth);
      proved = order.size() == graph.nodes().size();
      if (!proved) {
        violations.add(Obligation::deadlock, "deadlock at depth " + std::to_string(depth) + ": " +
                                                 graph.describeCycle(order, depth));
      } else if (graph.order(depth, bundled).size() < graph.nodes().size()) {
        proved = false;
        violations.add(Obligation::deadlock, "deadlock at depth " + std::to_string(depth) +
                                                 " where the steps of bundles are done as one");
      }
    }
    if (proved) report.depths.push_back(depth);
  }
}

void checkClosedForm(const ClosedForm& form, const Counts& counts, const Violations& violations) {
  const auto compare = [&](const char* what, double counted, double formula) {
    if (formula == ClosedForm::kUnclaimed) return;
    if (std::abs(counted - formula) <= 1e-9 * std::max(1.0, std::abs(formula))) return;
    std::ostringstream text;
    text.precision(12);
    text << what << ": the plan has " << counted << ", the closed form says " << formula;
    violations.add(Obligation::closed_form, text.str());
  };
  compare("rounds", counts.rounds, form.rounds);
  compare("blocks sent by all ranks", counts.total_sent, form.total_sent);
  compare("blocks sent by the rank that sends most", counts.max_sent, form.max_sent);
  compare("blocks sent between nodes", counts.between_nodes, form.between_nodes);
}

/// Whether some step has an operand for each contribution to a chunk of the output. A reduction in
/// rank order has such a step. This test costs far less than following the data.
bool combinesAllAtOnce(std::span<const RankPlan> plans) {
  const Spec& spec = plans.front().spec;
  std::size_t wanted = 0;
  for (int rank = 0; rank < spec.ranks && reduces(spec.collective); ++rank) {
    if (outputBlocks(spec, rank) == 0) continue;
    const auto from = traits(spec.collective).contributorsTo(rank, 0, spec.root, spec.ranks);
    wanted = std::max(wanted, static_cast<std::size_t>(from.end - from.first));
  }
  if (wanted < 2) return true;
  for (const RankPlan& plan : plans)
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps)
        if (step.inputs.size() >= wanted) return true;
  return false;
}

} // namespace

std::string_view name(Obligation obligation) {
  constexpr std::string_view kNames[] = {"well-formed", "matching",  "deadlock",
                                         "race",        "data flow", "closed form"};
  return kNames[static_cast<std::size_t>(obligation)];
}

std::string Report::text() const {
  std::string result;
  for (const Violation& violation : violations) {
    result += std::string(name(violation.obligation)) + ": " + violation.text + "\n";
  }
  return result;
}

Report check(std::span<const RankPlan> plans, const CheckOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "cannot check: " + what);
  };
  if (plans.empty()) refuse("there are no plans");
  if (traits(plans[0].spec.collective).contributors == detail::Contributors::peer) {
    refuse("one Send or Recv has no plan of its own");
  }
  for (const int depth : options.depths) {
    if (depth < 1) refuse("depth " + std::to_string(depth) + " is below 1");
  }

  Report report;
  const Violations violations(report, std::max<std::size_t>(options.max_violations, 1));
  if (!checkWellFormed(plans, violations)) return report;
  const auto graph = checkMatching(plans, violations);
  if (!graph) return report;
  checkDeadlock(*graph, options.depths, violations, report);
  const auto order = graph->order();
  if (order.size() < graph->nodes().size()) {
    if (report.ok()) { // no depth was given
      violations.add(Obligation::deadlock,
                     "deadlock at any depth: " + graph->describeCycle(order, 1 << 30));
    }
    return report;
  }
  checkRaces(*graph, order, violations);
  checkDataFlow(*graph, order, violations, report.reduction);
  report.counts = count(*graph, order);
  if (options.closed_form) checkClosedForm(*options.closed_form, report.counts, violations);
  return report;
}

std::vector<RankPlan> buildAll(const Algorithm& algorithm, const Spec& spec) {
  if (spec.ranks < 1 || spec.root < 0 || spec.root >= spec.ranks || !algorithm.supports(spec)) {
    throw Error(ErrorCode::invalid_argument,
                std::string(algorithm.name) + " does not support " +
                    std::string(name(spec.collective)) + " of " + std::to_string(spec.ranks) +
                    " ranks with root " + std::to_string(spec.root) + " and parameter " +
                    std::to_string(spec.parameter) +
                    (spec.layout.groups.empty() ? "" : " in layout " + text(spec.layout)));
  }
  base::log(LogLevel::trace, "builds all plans of ", algorithm.name, " for ", name(spec.collective),
            " of ", spec.ranks, " ranks");
  std::vector<RankPlan> plans;
  plans.reserve(static_cast<std::size_t>(spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) plans.push_back(algorithm.build(spec, rank));
  return plans;
}

Report check(const Algorithm& algorithm, const Spec& spec, const CheckOptions& options) {
  const auto plans = buildAll(algorithm, spec);
  CheckOptions all = options;
  if (!all.closed_form) all.closed_form = algorithm.closedForm(spec);
  return check(plans, all);
}

bool reducesInRankOrder(std::span<const RankPlan> plans) {
  if (!combinesAllAtOnce(plans)) return false;
  Report report;
  const Violations violations(report, 1);
  if (!checkWellFormed(plans, violations)) return false;
  const auto graph = checkMatching(plans, violations);
  if (!graph) return false;
  const auto order = graph->order();
  return order.size() == graph->nodes().size() &&
         checkDataFlow(*graph, order, violations, report.reduction) && report.reduction.rank_order;
}

} // namespace rondo::plan
