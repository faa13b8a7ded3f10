// Counts plans, evaluates the lectures' formulas, and compares them.
#include "model/tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "model/simulate.h"
#include "plan/check.h"
#include "plan/count.h"
#include "plan/registry.h"
#include "rondo/error.h"

namespace rondo::model {
namespace {

using namespace plan;

/// Plans of one algorithm, and everything counted from them.
struct Subject {
  Subject(const char* name, Collective collective, int ranks)
      : plans(buildAll(find(name), {.collective = collective, .ranks = ranks})),
        counts(count(plans)) {}

  static const Algorithm& find(const char* name) {
    if (const Algorithm* algorithm = findAlgorithm(name)) return *algorithm;
    throw Error(ErrorCode::unsupported,
                std::string("the tables need the algorithm '") + name + "'");
  }

  int mostWires(std::size_t first_rank = 0) const {
    int most = 0;
    for (auto r = first_rank; r < counts.ranks.size(); ++r) {
      most = std::max(most, counts.ranks[r].wires);
    }
    return most;
  }
  /// Blocks that a rank of those from `first_rank` on sends in its busiest round.
  double sentInRound(int first_rank = 0) const {
    double most = 0, sent = 0;
    const Transfer* before = nullptr;
    for (const Transfer& t : counts.transfers) { // sorted by round, then sender
      const bool same = before && before->round == t.round && before->channel.src == t.channel.src;
      sent = t.bytes + (same ? sent : 0);
      if (t.channel.src >= first_rank) most = std::max(most, sent);
      before = &t;
    }
    return most;
  }
  double busiestWire() const {
    const auto load = counts.wireLoad();
    return *std::max_element(load.begin(), load.end());
  }

  std::vector<RankPlan> plans;
  Counts counts;
};

/// Notes, in the order of Table::notes.
enum Note { kNone, kServer, kRingWires, kTreeWires, kTreeRounds, kTreeData, kFold };

struct Numbers {
  double n, m;        ///< workers, bytes
  double floor, ceil; ///< of log2 N
  double extra;       ///< ranks beyond the largest power of two
  double folds() const { return extra > 0 ? 1 : 0; }
};

constexpr int kSystems = 5;
constexpr Note kRoundsNotes[kSystems] = {kNone, kNone, kTreeRounds, kFold, kNone};

/// The systems of table 1, in its order.
struct Systems {
  explicit Systems(int ranks)
      : server("parameter_server", Collective::allreduce, ranks),
        ring("ring", Collective::allreduce, ranks),
        tree("tree", Collective::allreduce, ranks),
        butterfly("butterfly", Collective::allreduce, ranks),
        naive("oneshot", Collective::allreduce, ranks) {}

  const Subject server, ring, tree, butterfly, naive;
  const Subject* const subjects[kSystems] = {&server, &ring, &tree, &butterfly, &naive};
  const char* const names[kSystems] = {"parameter server", "ring", "tree", "butterfly", "naive"};
};

void addWiresAndRounds(Table& table, const Systems& systems, const Numbers& x) {
  const auto& [server, ring, tree, butterfly, naive, subjects, all_names] = systems;
  const auto& names = all_names; // lambdas cannot use a structured binding
  const auto add = [&](TableCell cell) { table.cells.push_back(std::move(cell)); };
  const double n = x.n, fold_rounds = x.floor + 2 * x.folds();

  const auto wires = [&](const char* who, int system, const char* formula, double expected,
                         double counted, Note note) {
    add({std::string("wires of ") + who, systems.names[system], formula, "", expected, counted,
         note});
  };
  wires("a worker", 0, "1", 1, server.mostWires(1), kNone);
  wires("the server", 0, "N", n - 1, server.counts.ranks[0].wires, kServer);
  wires("a worker", 1, "2", std::min(2.0, n - 1), ring.mostWires(), kRingWires);
  wires("a worker", 2, "3", x.ceil, tree.mostWires(), kTreeWires);
  wires("a worker", 3, "log N", x.floor + x.folds(), butterfly.mostWires(), kFold);
  wires("a worker", 4, "N-1", n - 1, naive.mostWires(), kNone);

  const char* const rounds_text[] = {"2", "2(N-1)", "2 log N", "log N", "1"};
  const double rounds[] = {2, 2 * (n - 1), 2 * x.floor, fold_rounds, 1};
  for (int i = 0; i < kSystems; ++i) {
    add({"rounds", names[i], rounds_text[i], "", rounds[i],
         static_cast<double>(subjects[i]->counts.rounds), kRoundsNotes[i]});
  }
}

void addData(Table& table, const Systems& systems, const Numbers& x, const Link& link) {
  const auto& subjects = systems.subjects;
  const auto& names = systems.names;
  const auto add = [&](TableCell cell) { table.cells.push_back(std::move(cell)); };
  const double n = x.n, m = x.m, fold_rounds = x.floor + 2 * x.folds();
  const char* const sent_text[] = {"M", "M/N", "M", "M", "(N-1)M"};
  const double sent[] = {m, m / n, m, m, (n - 1) * m};
  for (int i = 0; i < kSystems; ++i) {
    const Subject& s = *subjects[i];
    const double counted = i == 2 ? s.busiestWire() : s.sentInRound(i == 0 ? 1 : 0);
    add({"data a worker sends in a round", names[i], sent_text[i], "B", sent[i], counted * m,
         i == 2 ? kTreeData : kNone});
  }

  const char* const time_text[] = {"M/B", "M/(N B)", "M/B", "M/B", ""};
  const double time[] = {m, m / n, m, m, 0};
  for (int i = 0; i < kSystems; ++i) {
    add({"time of a round", names[i], time_text[i], "s", time[i] * link.beta,
         subjects[i]->busiestWire() * m * link.beta, kNone});
  }

  const double inner = n - x.extra; // ranks of the butterfly without the folded ones
  const char* const total_text[] = {"2 M N", "2 (N-1) M", "2 M N", "M N log N", "N (N-1) M"};
  const double total[] = {2 * m * (n - 1), 2 * (n - 1) * m, 2 * m * (n - 1),
                          m * (inner * x.floor + 2 * x.extra), n * (n - 1) * m};
  const Note total_note[] = {kServer, kNone, kTreeData, kFold, kNone};
  for (int i = 0; i < kSystems; ++i) {
    add({"data sent by all", names[i], total_text[i], "B", total[i],
         subjects[i]->counts.total_sent * m, total_note[i]});
  }

  const char* const all_text[] = {"2 M/B", "2 (N-1) M/(N B)", "2 log N M/B", "log N M/B", ""};
  const double all[] = {2 * m, 2 * (n - 1) / n * m, 2 * x.floor * m, fold_rounds * m, 0};
  for (int i = 0; i < kSystems; ++i) {
    const auto load = subjects[i]->counts.wireLoad();
    add({"total time", names[i], all_text[i], "s", all[i] * link.beta,
         std::accumulate(load.begin(), load.end(), 0.0) * m * link.beta, kRoundsNotes[i]});
  }
}

Table wiresRoundsData(const Numbers& x, const Link& link) {
  Table table;
  table.title = "Table 1: wires, rounds, data";
  const Systems systems(static_cast<int>(x.n));
  addWiresAndRounds(table, systems, x);
  addData(table, systems, x, link);
  return table;
}

Table alphaBetaCosts(const Numbers& x, const Link& link) {
  Table table;
  table.title = "Table 2: alpha-beta costs";
  const int ranks = static_cast<int>(x.n);
  struct Row {
    const char *system, *algorithm;
    Collective collective;
    const char *latency_text, *bytes_text, *cost_text;
    double latency, bytes;
    Note note;
  };
  const double n = x.n, m = x.m;
  const Row rows[] = {
      {"PS", "parameter_server", Collective::allreduce, "2", "2 (N-1) M",
       "2 alpha + 2 (N-1) M beta", 2, 2 * (n - 1) * m, kNone},
      {"Ring-AllReduce", "ring", Collective::allreduce, "2 (N-1)", "2 (N-1)/N M",
       "2 (N-1) alpha + 2 (N-1)/N M beta", 2 * (n - 1), 2 * (n - 1) / n * m, kNone},
      {"Tree-AllReduce", "tree", Collective::allreduce, "2 log N", "2 log N M",
       "2 alpha log N + 2 log N M beta", 2 * x.floor, 2 * x.ceil * m, kTreeRounds},
      {"Broadcast", "tree", Collective::broadcast, "log N", "log N M", "alpha log N + log N M beta",
       x.floor, x.ceil * m, kTreeRounds},
      {"Allgather", "bruck", Collective::allgather, "log N", "(N-1) M",
       "alpha log N + (N-1) M beta", x.ceil, (n - 1) * m, kNone},
  };
  constexpr std::size_t kRows = std::size(rows);
  double latency[kRows], path_bytes[kRows];
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto seconds = [&](double alpha, double beta) {
      const Profile ideal = idealProfile(alpha, beta);
      return simulate(Subject::find(rows[i].algorithm),
                      {.collective = rows[i].collective, .ranks = ranks}, {m, DataType::uint8},
                      {.profile = &ideal})
          .seconds;
    };
    latency[i] = seconds(1, 0);
    path_bytes[i] = seconds(0, 1);
    table.cells.push_back({"latency (alphas)", rows[i].system, rows[i].latency_text, "",
                           rows[i].latency, latency[i], rows[i].note});
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    table.cells.push_back({"bandwidth (bytes on the path)", rows[i].system, rows[i].bytes_text, "B",
                           rows[i].bytes, path_bytes[i], rows[i].note});
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    table.cells.push_back({"cost", rows[i].system, rows[i].cost_text, "s",
                           rows[i].latency * link.alpha + rows[i].bytes * link.beta,
                           latency[i] * link.alpha + path_bytes[i] * link.beta, rows[i].note});
  }
  return table;
}

/// Keeps the notes that cells refer to, numbered in the order of reference.
void addNotes(Table& table) {
  const std::string texts[] = {
      "",
      "The server is one of the ranks, so N = ranks - 1 workers are connected to it.",
      "Two ranks have one neighbour each.",
      "3 is a binary tree's (parent, two children), and this tree's with 8 ranks. It halves the "
      "ranks until each is alone, so a rank has up to log2 N wires, rounded up.",
      "A rank serves all its children in one round, so with N no power of two log N counts rounds "
      "rounded down; what one link carries one after the other, rounded up.",
      "On each wire. A tree has N = ranks - 1 edges, each used once up and once down.",
      "With N no power of two, the ranks beyond it fold into a neighbour first and hear from it "
      "last: 2 rounds and one wire more, and 2 M for each of them.",
  };
  std::vector<int> numbers(std::size(texts), 0);
  for (TableCell& cell : table.cells) {
    if (cell.note == kNone) continue;
    int& number = numbers[static_cast<std::size_t>(cell.note)];
    if (number == 0) {
      table.notes.push_back(texts[cell.note]);
      number = static_cast<int>(table.notes.size());
    }
    cell.note = number;
  }
}

std::string valueText(double value, const std::string& unit) {
  char text[48];
  std::snprintf(text, sizeof text, unit == "s" ? "%.6g" : "%.12g", value);
  return unit.empty() ? text : text + (" " + unit);
}

} // namespace

bool TableCell::equal() const {
  return formula.empty() ||
         std::abs(counted - expected) <= 1e-9 * std::max(std::abs(counted), std::abs(expected));
}

bool Table::equal() const {
  return std::all_of(cells.begin(), cells.end(), [](const TableCell& c) { return c.equal(); });
}

std::vector<Table> lectureTables(int ranks, double bytes, const Link& link) {
  if (ranks < 2) {
    throw Error(ErrorCode::invalid_argument,
                "the tables need at least 2 ranks, not " + std::to_string(ranks));
  }
  if (!(bytes >= 1)) {
    throw Error(ErrorCode::invalid_argument, "the tables need at least one byte");
  }
  const auto n = static_cast<unsigned>(ranks);
  const Numbers x{.n = static_cast<double>(ranks),
                  .m = bytes,
                  .floor = static_cast<double>(std::bit_width(n) - 1),
                  .ceil = static_cast<double>(std::bit_width(n - 1)),
                  .extra = static_cast<double>(n - std::bit_floor(n))};
  std::vector<Table> tables{wiresRoundsData(x, link), alphaBetaCosts(x, link)};
  char setting[160];
  std::snprintf(setting, sizeof setting,
                " (N = %d, M = %.12g B, alpha = %g s, beta = 1/B = %g s per byte)", ranks, bytes,
                link.alpha, link.beta);
  for (Table& table : tables) {
    table.title += setting;
    addNotes(table);
  }
  return tables;
}

std::string text(const Table& table) {
  const char* const heads[] = {"", "", "counted", "", "formula", ""};
  constexpr std::size_t kColumns = std::size(heads);
  std::vector<std::vector<std::string>> rows{{heads, heads + kColumns}};
  std::string previous;
  for (const TableCell& cell : table.cells) {
    const bool has_formula = !cell.formula.empty();
    std::string formula = has_formula ? "= " + cell.formula : "";
    if (cell.note != 0) formula += " [" + std::to_string(cell.note) + "]";
    rows.push_back({cell.quantity == previous ? "" : cell.quantity, cell.system,
                    valueText(cell.counted, cell.unit),
                    !has_formula   ? ""
                    : cell.equal() ? "="
                                   : "DIFFERS FROM",
                    has_formula ? valueText(cell.expected, cell.unit) : "-", formula});
    previous = cell.quantity;
  }
  std::size_t widths[kColumns] = {};
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string result = table.title + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      const bool right = c == 2 || c == 4; // numbers
      line += (right ? space + row[c] : row[c] + space) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  const auto differing = std::count_if(table.cells.begin(), table.cells.end(),
                                       [](const TableCell& c) { return !c.equal(); });
  result += differing == 0 ? "counted = formula in every cell\n"
                           : std::to_string(differing) + " cells differ\n";
  for (std::size_t i = 0; i < table.notes.size(); ++i) {
    result += "[" + std::to_string(i + 1) + "] " + table.notes[i] + "\n";
  }
  return result;
}

} // namespace rondo::model
