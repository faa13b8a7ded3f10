// Prints plans as text, in columns.
#include "plan/print.h"

#include <algorithm>
#include <cstdio>

#include "plan/check_parts.h"
#include "plan/tiles.h"
#include "rondo/error.h"

namespace rondo::plan {
namespace {

constexpr int kShownRanks = 8;                   // unless ranks were chosen
constexpr std::size_t kColumns = 100;            // of a line of rounds
constexpr int kLongestFormula = 16;              // ranks
constexpr std::size_t kMessageBytes = 128 << 10; // default size of a slot in shared memory

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string plural(int count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string list(const std::vector<int>& numbers) {
  std::string result;
  for (const int n : numbers) result += (result.empty() ? "" : ", ") + std::to_string(n);
  return result;
}

/// The columns of one step.
struct Line {
  std::string verbs, pieces, from, to, after;
};

std::string verbsOf(const Step& step) {
  if (step.is_barrier) return "barrier";
  if (step.inputs[0].of_all) return step.to_all ? "sum+store" : "sum";
  if (step.to_all) return "store";
  const bool receives = std::any_of(step.inputs.begin(), step.inputs.end(),
                                    [](const Operand& operand) { return !operand.local(); });
  const bool reduces = step.inputs.size() > 1;
  const bool sends = !step.sends.empty();
  std::string verbs;
  const auto add = [&](const char* verb) {
    verbs += (verbs.empty() ? "" : "+") + std::string(verb);
  };
  if (receives) add("recv");
  if (reduces) add("reduce");
  if (step.output && (sends || (!receives && !reduces))) add("copy");
  if (sends) add("send");
  return verbs.empty() ? "nothing" : verbs;
}

std::string piecesOf(const Step& step) {
  if (step.is_barrier) return "";
  std::string pieces;
  const Piece* last = nullptr;
  for (const Operand& operand : step.inputs) {
    if (!operand.local()) continue;
    pieces += (pieces.empty() ? "" : "+") + text(operand.piece);
    last = &operand.piece;
  }
  if (!step.output) return pieces.empty() ? text(step.shape).substr(2) : pieces; // "[3]": relayed
  const std::string output = text(*step.output);
  if (!last) return output;
  const bool same = last->chunk == step.output->chunk;
  return pieces + "=>" + (same ? output.substr(0, output.find('[')) : output);
}

Line lineOf(const RankPlan& plan, const Step& step) {
  Line line{verbsOf(step), piecesOf(step), {}, {}, {}};
  const auto peer = [&](int channel, bool sends) {
    const Channel& c = plan.channels[static_cast<std::size_t>(channel)];
    return std::to_string(sends ? c.dst : c.src) +
           (c.index != 0 ? "#" + std::to_string(c.index) : "");
  };
  for (const Operand& operand : step.inputs) {
    if (operand.of_all) line.from = "all";
    if (operand.local()) continue;
    line.from += (line.from.empty() ? "" : ",") + peer(operand.channel, false);
  }
  if (step.to_all || step.is_barrier) line.to = "all";
  for (const int channel : step.sends)
    line.to += (line.to.empty() ? "" : ",") + peer(channel, true);
  for (const Dependency& d : step.after) {
    line.after += (line.after.empty() ? "after " : ", ") + ("lane " + std::to_string(d.lane)) +
                  " step " + std::to_string(d.step);
  }
  return line;
}

/// "layout 4x2: ranks 0 1, 2 3, 4 5, 6 7 on nodes 0 to 3", for the first level.
std::string describeLayout(const Layout& layout) {
  const auto nodes = layout.nodes();
  std::string ranks;
  for (const auto& node : nodes) {
    ranks += ranks.empty() ? "" : ",";
    for (const int rank : node) ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
  }
  return "layout " + text(layout) + ": ranks " + ranks +
         (nodes.size() == 1 ? " on one node"
                            : " on nodes 0 to " + std::to_string(nodes.size() - 1));
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

} // namespace

std::string summarize(const RankPlan& plan, const Counts& counts) {
  const Spec& spec = plan.spec;
  std::string result = plural(spec.ranks, "rank") + ", ";
  const int chunks = static_cast<int>(plan.chunks_per_block);
  const bool blocks = traits(spec.collective).perRank();
  result += (blocks ? "blocks of " : "") + plural(chunks, "chunk") + ", ";
  result += plural(counts.rounds, "round") + ", ";

  const bool barrier = !traits(spec.collective).movesData(); // its messages are counted instead
  const auto sent = [&](const RankCount& r) { return barrier ? r.messages_sent : r.sent; };
  const auto range = [&](auto value) {
    double low = value(counts.ranks[0]), high = low;
    for (const RankCount& r : counts.ranks) {
      low = std::min<double>(low, value(r));
      high = std::max<double>(high, value(r));
    }
    return std::pair(low, high);
  };
  const auto [low, high] = range(sent);
  const auto [out_low, out_high] = range([](const RankCount& r) { return r.wires_out; });
  const auto [in_low, in_high] = range([](const RankCount& r) { return r.wires_in; });
  const std::string unit = barrier ? " messages" : " n";
  const auto outs = plural(static_cast<int>(out_high), "wire");
  const auto ins = std::to_string(static_cast<int>(in_high));
  if (low == high && out_low == out_high && in_low == in_high) {
    return result + "each rank sends " + number(low) + unit + " over " + outs +
           " and receives over " + ins;
  }
  return result + "ranks send " + (low == high ? "" : number(low) + " to ") + number(high) + unit +
         (barrier ? "" : " (" + number(counts.total_sent) + " n in all)") + " over " +
         (out_low == out_high ? "" : "up to ") + outs + " and receive over " +
         (in_low == in_high ? "" : "up to ") + ins;
}

std::string describeTiles(const RankPlan& plan, std::size_t block_bytes,
                          std::size_t message_bytes) {
  const CallShape shape{block_bytes, DataType::uint8};
  const std::size_t limit = messageElements(plan, shape, message_bytes, false);
  const Tiling tiling = cut(plan, shape, tileElements(plan, shape, limit));
  std::size_t most = 0;
  for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
    for (std::size_t s = 0; s < plan.lanes[lane].steps.size(); ++s) {
      const Step& step = plan.lanes[lane].steps[s];
      const bool receives = std::any_of(step.inputs.begin(), step.inputs.end(),
                                        [](const Operand& input) { return !input.local(); });
      if (!receives && step.sends.empty()) continue;
      for (const auto* lanes : {&tiling.full, &tiling.last})
        if (!lanes->empty()) most = std::max(most, (*lanes)[lane][s].bytes);
    }
  return "blocks of " + std::to_string(block_bytes) +
         " B: " + plural(static_cast<int>(tiling.tiles), "tile") + " of " +
         std::to_string(tiling.tile) + " B, messages of up to " + std::to_string(most) + " B\n";
}

std::string describeSteps(const RankPlan& plan) {
  std::vector<Line> lines;
  std::size_t verbs = 0, pieces = 0, from = 0, to = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      const Line& line = lines.emplace_back(lineOf(plan, step));
      verbs = std::max(verbs, line.verbs.size());
      pieces = std::max(pieces, line.pieces.size());
      from = std::max(from, line.from.size());
      to = std::max(to, line.to.size());
    }
  }
  const std::string rank = padded("rank " + std::to_string(plan.rank), 8) + " ";
  if (lines.empty()) return rank + "nothing to do\n";

  std::string result;
  std::size_t next = 0;
  for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
    for (std::size_t s = 0; s < plan.lanes[l].steps.size(); ++s) {
      const Line& line = lines[next++];
      std::string row = next == 1 ? rank : std::string(rank.size(), ' ');
      if (plan.lanes.size() > 1) {
        row += s == 0 ? padded("lane " + std::to_string(l), 7) + " " : std::string(8, ' ');
      }
      row += padded(line.verbs, verbs) + " " + padded(line.pieces, pieces) + " ";
      row += std::string(from - line.from.size(), ' ') + line.from;
      row += line.from.empty() && line.to.empty() ? "    " : " -> ";
      row += padded(line.to, to) + "  " + line.after;
      row.erase(row.find_last_not_of(' ') + 1);
      result += row + "\n";
    }
  }
  return result;
}

std::string describeRounds(const Counts& counts, std::span<const int> ranks) {
  const auto chosen = [&](int rank) {
    return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  std::string result, row;
  int round = 0;
  const std::size_t indent = padded("round " + std::to_string(counts.rounds), 8).size() + 1;
  for (const Transfer& t : counts.transfers) {
    if (!chosen(t.channel.src) && !chosen(t.channel.dst)) continue;
    std::string entry = std::to_string(t.channel.src) + (t.between_nodes ? " => " : " -> ") +
                        std::to_string(t.channel.dst);
    if (t.channel.index != 0) entry += "#" + std::to_string(t.channel.index);
    entry += " " + text(t.shape).substr(2);
    if (t.round != round) {
      if (round != 0) result += row + "\n";
      round = t.round;
      row = padded("round " + std::to_string(round), indent - 1) + " " + entry;
    } else if (row.size() + 2 + entry.size() > kColumns) {
      result += row + ",\n";
      row = std::string(indent, ' ') + entry;
    } else {
      row += ", " + entry;
    }
  }
  return round == 0 ? result : result + row + "\n";
}

std::string explain(const Algorithm& algorithm, const Spec& spec, const PrintOptions& options) {
  const auto plans = buildAll(algorithm, spec);
  std::vector<int> ranks = options.ranks;
  if (ranks.empty()) {
    for (int r = 0; r < std::min(spec.ranks, kShownRanks); ++r) ranks.push_back(r);
  }
  for (const int rank : ranks) {
    if (rank < 0 || rank >= spec.ranks) {
      throw Error(ErrorCode::invalid_argument, "there is no rank " + std::to_string(rank) +
                                                   "; valid: 0 to " +
                                                   std::to_string(spec.ranks - 1));
    }
  }
  CheckOptions checks{.depths = options.depths, .closed_form = algorithm.closedForm(spec)};
  const Report report = check(plans, checks);

  std::string result = std::string(algorithm.name) + ": " + std::string(algorithm.summary) + "\n";
  if (!report.counts.ranks.empty()) result += summarize(plans[0], report.counts) + "; ";
  result += report.ok() ? "checked at depth " + list(report.depths) + "\n"
                        : "NOT right:\n" + report.text();
  if (!spec.layout.groups.empty())
    result += describeLayout(spec.layout) + "; " + number(report.counts.between_nodes) +
              " n in all between nodes" + (options.rounds ? ", by => in the rounds\n" : "\n");
  for (const std::size_t bytes : options.blocks)
    result += describeTiles(plans[0], bytes, kMessageBytes);
  if (options.steps) {
    for (const int rank : ranks) {
      result += describeSteps(plans[static_cast<std::size_t>(rank)]);
    }
    if (static_cast<int>(ranks.size()) < spec.ranks) {
      result +=
          "and " + std::to_string(spec.ranks - static_cast<int>(ranks.size())) + " ranks more\n";
    }
  }
  if (options.rounds) {
    const bool all = static_cast<int>(ranks.size()) == spec.ranks;
    result += describeRounds(report.counts, all ? std::span<const int>{} : ranks);
  }
  if (reduces(spec.collective) && !report.reduction.example.empty()) {
    const std::string formula =
        spec.ranks <= kLongestFormula ? " (chunk 0: " + report.reduction.example + ")" : "";
    result +=
        std::string("reduced ") +
        (report.reduction.rank_order ? "in rank order, in one pass" : "in an order of its own") +
        formula + (report.reduction.agrees ? "" : ", not in the same way on all ranks") + "\n";
  }
  return result;
}

} // namespace rondo::plan
