// Finds the fastest measured algorithms, and writes them as a rules file.
#include "tools/bench/rules.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "rondo/error.h"
#include "tools/bench/json.h"
#include "tools/plan_text.h"

namespace rondo::tools {

namespace {

using Rounds = std::vector<double>; ///< microseconds of each round

/// What was measured for one size.
struct Cell {
  std::string chosen; ///< by the planner
  Rounds planner;     ///< of its choice
  std::map<std::string, Rounds> forced = {};
};
using Cells = std::map<std::size_t, Cell>; ///< by bytes

struct Rule {
  std::string algorithm;
  std::size_t from = 0, last = 0, end = 0; ///< first and last measured size; end of the range
};

/// Rows with the same size are averaged: all tables have the same rows.
Cells cellsOf(const std::vector<TableResult>& tables) {
  Cells cells;
  std::size_t round = 0; // from 1 on
  for (const TableResult& table : tables) {
    const bool chosen = table.algorithm.empty();
    if (chosen) ++round;
    std::map<std::size_t, double> rows;
    for (const Row& row : table.rows) ++rows[row.bytes];
    for (const Row& row : table.rows) {
      Cell& cell = cells[row.bytes];
      if (chosen) cell.chosen = row.algorithm;
      Rounds& rounds = chosen ? cell.planner : cell.forced[row.algorithm];
      rounds.resize(round);
      rounds.back() += row.out_of_place.value().time / rows[row.bytes];
    }
  }
  // The planner's choice was also forced. The faster of both times counts for it.
  for (auto& [bytes, cell] : cells)
    if (const auto same = cell.forced.find(cell.chosen); same != cell.forced.end())
      std::ranges::transform(cell.planner, same->second, cell.planner.begin(),
                             [](double one, double other) { return std::min(one, other); });
  return cells;
}

double worst(const Rounds& rounds) { return *std::ranges::max_element(rounds); }

/// Whether the slower time is above the faster one by more than the margin, in every round.
bool clearlyFaster(const Rounds& faster, const Rounds& slower) {
  for (std::size_t round = 0; round < faster.size(); ++round)
    if (!(slower[round] > faster[round] * (1 + kRuleMargin))) return false;
  return true;
}

/// The algorithm to name for this size; empty: none. `before`: that of the size before.
std::string winnerOf(const Cell& cell, const std::string& before) {
  const auto fastest =
      std::ranges::min_element(cell.forced, {}, [](const auto& one) { return worst(one.second); });
  if (fastest == cell.forced.end()) return {};
  const auto serves = [&](const std::string& algorithm, const Rounds& rounds) {
    return algorithm != cell.chosen && clearlyFaster(rounds, cell.planner);
  };
  if (const auto same = cell.forced.find(before); same != cell.forced.end() &&
                                                  serves(before, same->second) &&
                                                  !clearlyFaster(fastest->second, same->second))
    return before;
  return serves(fastest->first, fastest->second) ? fastest->first : std::string();
}

std::vector<Rule> rulesOf(const Cells& cells) {
  std::vector<Rule> rules;
  std::string before;
  for (auto at = cells.begin(); at != cells.end(); ++at) {
    const std::string winner = winnerOf(at->second, before);
    const auto next = std::next(at);
    const std::size_t end = next == cells.end() ? at->first : next->first - 1;
    if (!winner.empty() && winner == before) {
      rules.back().last = at->first;
      rules.back().end = end;
    } else if (!winner.empty()) {
      rules.push_back({winner, at->first, at->first, end});
    }
    before = winner;
  }
  return rules;
}

/// A line that the reader of rules files accepts, whatever the names of machines contain.
std::string comment(std::string text) {
  constexpr std::size_t kLongest = 900; // a line has at most 1000 bytes
  text = "# " + text.substr(0, kLongest);
  std::ranges::replace_if(
      text,
      [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
      },
      '?');
  return text + "\n";
}

/// "65536 bytes: ring 12.3 and 12.1 us, planner's direct 15.0 and 15.2 us".
std::string timesText(const Cells& cells, std::size_t bytes, const std::string& algorithm) {
  const Cell& cell = cells.at(bytes);
  const auto times = [](const Rounds& rounds) {
    std::string text;
    for (const double time : rounds)
      text += (text.empty() ? "" : " and ") + formatted("%.4g", time);
    return text + " us";
  };
  return std::to_string(bytes) + " bytes: " + algorithm + " " + times(cell.forced.at(algorithm)) +
         ", planner's " + cell.chosen + " " + times(cell.planner);
}

std::string plural(std::size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

} // namespace

std::vector<std::string> tablesForRules(const std::vector<std::string>& algorithms) {
  std::vector<std::string> tables;
  for (int round = 0; round < 2; ++round) {
    tables.emplace_back();
    for (std::size_t i = 0; i < algorithms.size(); ++i)
      if (std::find(algorithms.begin(), algorithms.begin() + i, algorithms[i]) ==
          algorithms.begin() + i)
        tables.push_back(algorithms[i]);
  }
  return tables;
}

std::string rulesText(const BenchConfig& config, const Environment& environment,
                      const std::vector<TableResult>& tables) {
  const Cells cells = cellsOf(tables);
  const std::string ranks = std::to_string(environment.ranks);
  const std::string nodes = std::to_string(environment.nodes);
  std::string text = comment(
      "rondo " + environment.version + " bench " + std::string(name(config.collective)) +
      " --rules: " + plural(static_cast<std::size_t>(environment.ranks), "rank") + " on " +
      plural(static_cast<std::size_t>(environment.nodes), "node") + ", transport " +
      environment.transport + ", device " + (config.onGpu() ? "cuda" : "cpu") +
      (config.deterministic ? ", deterministic" : "") + (config.mapped ? ", mapped buffers" : ""));
  text += comment("machine: " + environment.host + ", " + std::to_string(environment.cores) +
                  " x " + environment.processor);
  text += comment("Where an algorithm was more than " + formatted("%g", 100 * kRuleMargin) +
                  "% faster than the planner's choice in both of two rounds.");
  text += "collective,min_bytes,max_bytes,ranks,nodes,algorithm\n";
  for (const Rule& rule : rulesOf(cells)) {
    std::string times = timesText(cells, rule.from, rule.algorithm);
    if (rule.last != rule.from) times += "; " + timesText(cells, rule.last, rule.algorithm);
    text += comment(times);
    text += std::string(name(config.collective)) + "," + std::to_string(rule.from) + "," +
            std::to_string(rule.end) + "," + ranks + "," + nodes + "," + rule.algorithm + "\n";
  }
  return text;
}

void requireNewRules(const std::string& path) {
  std::error_code ignored; // of a path that cannot be looked at: making the file reports it
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    throw Error(ErrorCode::invalid_argument,
                "--rules: '" + path + "' exists; remove it, or name another file");
  requireWritable("--rules", path);
}

std::string writeRules(const BenchConfig& config, const Environment& environment,
                       const std::vector<TableResult>& tables) {
  if (!std::ranges::all_of(tables, &TableResult::good))
    return "# Rules                : none written, because results were wrong\n";
  const std::string text = rulesText(config, environment, tables);
  std::FILE* const file = std::fopen(config.rules.c_str(), "wxe"); // fails if the file exists
  const bool written = file && std::fputs(text.c_str(), file) >= 0;
  if (!file || (std::fclose(file) != 0) || !written)
    throw Error(ErrorCode::system,
                "--rules: cannot write '" + config.rules + "': " + std::strerror(errno));
  return "# Rules                : " + plural(rulesOf(cellsOf(tables)).size(), "rule") + " in " +
         config.rules + "\n";
}

} // namespace rondo::tools
