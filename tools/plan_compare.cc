// Compares all algorithms of a collective in a table: counts, predicted times, the
// planner's choice.
#include "tools/plan_compare.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "plan/check.h"
#include "plan/count.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/parse.h"
#include "tools/plan_text.h"

namespace rondo::tools {

namespace {

/// Plans with more messages are predicted, but not built and counted: all ranks' plans together
/// would take gigabytes.
constexpr std::uint64_t kMostCounted = 10'000'000;

/// One algorithm, with one prediction for each size.
struct Line {
  plan::Choice choice;
  std::optional<plan::Counts> counts = {}; ///< nothing: too_large says why
  std::vector<double> seconds = {};        ///< empty: too_large says why
  std::string too_large = {};              ///< "is not predicted: WHY" or "is not counted: WHY"

  double last() const {
    return seconds.empty() ? std::numeric_limits<double>::infinity() : seconds.back();
  }
};

class Comparing {
 public:
  Comparing(const Comparison& what, const PlannedNetwork& planned)
      : what_(what),
        planned_(planned),
        moves_(traits(what.collective).movesData()),
        blocks_(blocksOfSize(what.collective, what.ranks)) {
    const plan::Spec spec = specOf({});
    if (spec.root < 0 || spec.root >= spec.ranks)
      throw Error(ErrorCode::invalid_argument, "root " + std::to_string(spec.root) +
                                                   " is not in 0 to " +
                                                   std::to_string(spec.ranks - 1));
    for (const plan::Algorithm* algorithm : plan::supporting(spec)) add({algorithm, 0});
    if (lines_.empty())
      throw Error(ErrorCode::invalid_argument,
                  std::string(name(spec.collective)) + " has no algorithms");
    plan::PlanCache plans(0);
    for (const std::size_t bytes : what.bytes) {
      const planner::Decision decided =
          planner::decision(spec, bytes / blocks_, what.policy, plans);
      by_user_ = decided.by == planner::Decision::By::user;
      chosen_.push_back(decided.choice);
      const std::string text = chosen_.back().text();
      if (std::none_of(lines_.begin(), lines_.end(),
                       [&](const Line& line) { return line.choice.text() == text; }))
        add(chosen_.back());
    }
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const Line& a, const Line& b) { return a.last() < b.last(); });
  }

  std::string text() const {
    Columns columns;
    std::vector<std::string> titles{"algorithm", "rounds", "sent by all", "by the busiest rank"};
    if (placed()) titles.emplace_back("between nodes");
    for (const std::size_t bytes : what_.bytes)
      titles.push_back(one() ? "predicted" : formatBytes(bytes));
    columns.add(titles);
    for (const Line& line : lines_) columns.add(row(line));
    return heading() + columns.text() + footer();
  }

 private:
  bool one() const { return what_.bytes.size() == 1; }
  plan::Spec specOf(const plan::Choice& choice) const {
    return choice.applied({.collective = what_.collective,
                           .ranks = what_.ranks,
                           .root = what_.root,
                           .layout = what_.policy.layout});
  }
  bool placed() const { return what_.policy.layout.nodes().size() > 1; }

  void add(const plan::Choice& choice) {
    const plan::Spec spec = specOf(choice);
    Line line{choice};
    std::uint64_t messages = 0; // of a tile
    try {
      const model::Simulation simulation(*choice.algorithm, spec, planned_.network());
      for (const std::size_t bytes : what_.bytes) {
        const double block = static_cast<double>(bytes) / static_cast<double>(blocks_);
        const model::Outcome outcome = simulation.run({.bytes = block});
        line.seconds.push_back(outcome.seconds);
        messages = outcome.messages / outcome.tiles;
      }
    } catch (const model::TooLarge& error) {
      line.seconds.clear();
      line.too_large = std::string("is not predicted: ") + error.what();
    }
    if (line.too_large.empty() && messages > kMostCounted)
      line.too_large = "is not counted: more than 10 million messages";
    if (line.too_large.empty()) line.counts = plan::count(plan::buildAll(*choice.algorithm, spec));
    lines_.push_back(std::move(line));
  }

  std::string sent(double blocks) const {
    if (!one()) return formatted("%.4g", blocks) + " n";
    return sizeText(blocks * static_cast<double>(what_.bytes[0]) / static_cast<double>(blocks_));
  }

  std::vector<std::string> row(const Line& line) const {
    std::vector<std::string> row{line.choice.text()};
    if (line.counts) addCounts(*line.counts, row);
    row.resize(placed() ? 5 : 4, "-");
    for (std::size_t i = 0; i < line.seconds.size(); ++i)
      row.push_back(timeText(line.seconds[i]) + (chosen_[i] == line.choice ? " *" : "  "));
    if (line.seconds.empty()) row.insert(row.end(), what_.bytes.size(), "-");
    return row;
  }

  void addCounts(const plan::Counts& counts, std::vector<std::string>& row) const {
    row.push_back(std::to_string(counts.rounds));
    if (moves_) {
      row.push_back(sent(counts.total_sent));
      row.push_back(sent(counts.max_sent));
      if (placed()) row.push_back(sent(counts.between_nodes));
      return;
    }
    int all = 0, most = 0;
    for (const plan::RankCount& rank : counts.ranks) {
      all += rank.messages_sent;
      most = std::max(most, rank.messages_sent);
    }
    row.push_back(std::to_string(all) + " messages");
    row.push_back(std::to_string(most) + " messages");
  }

  std::string heading() const {
    std::string text = std::string(name(what_.collective));
    if (moves_ && one()) text += " of " + sizeText(static_cast<double>(what_.bytes[0]));
    text += " on " + std::to_string(what_.ranks) + (what_.ranks == 1 ? " rank" : " ranks");
    if (placed()) text += " in layout " + plan::text(what_.policy.layout);
    if (hasRoot(what_.collective)) text += ", root " + std::to_string(what_.root);
    if (blocks_ > 1)
      text += ", in " + std::to_string(blocks_) + (one() ? " blocks" : " blocks of n bytes");
    else if (moves_ && !one()) text += ", n bytes";
    return text + "\n\n";
  }

  std::string footer() const {
    const planner::Policy& policy = what_.policy;
    std::string text;
    for (const Line& line : lines_)
      if (!line.too_large.empty()) text += line.choice.text() + " " + line.too_large + ".\n";
    return text + "\n* chosen by " +
           (by_user_ ? std::string(plan::variableOf(policy.algorithms)) : "the planner") + " if " +
           std::string(policy.oversubscribed ? "ranks share processors"
                                             : "each rank has a processor") +
           (policy.network_channels ? ", and some talk over TCP" : ", in shared memory") +
           "\nRounds and bytes are counted in the plans. Times are predicted with\n" +
           planned_.text(policy.layout) + "; --explain says why.\n";
  }

  const Comparison& what_;
  const PlannedNetwork& planned_;
  const bool moves_;
  const std::size_t blocks_; ///< number of blocks into which a size is cut
  std::vector<Line> lines_;
  std::vector<plan::Choice> chosen_; ///< for each size
  bool by_user_ = false;             ///< RONDO_ALGO or NCCL_ALGO chose
};

} // namespace

std::string compare(const Comparison& what, const PlannedNetwork& planned) {
  return Comparing(what, planned).text();
}

} // namespace rondo::tools
