// Tests the rules file that `rondo bench --rules` writes: what it names, and that its reader
// decides by it.
#include "tools/bench/rules.h"

#include <fstream>
#include <map>
#include <memory>

#include "planner/choose.h"
#include "planner/rules_file.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

using namespace tools;
using planner::RulesFile;

constexpr int kRanks = 4;

/// A table of rows from 1 KiB on, each of twice the size before, with these times in microseconds.
/// `chosen`: the algorithm of each row, if the planner chooses.
TableResult table(const std::string& algorithm, const std::vector<double>& times,
                  const std::vector<std::string>& chosen = {}) {
  TableResult result;
  result.algorithm = algorithm;
  for (std::size_t i = 0; i < times.size(); ++i) {
    Row row;
    row.bytes = std::size_t{1024} << i;
    row.algorithm = chosen.empty() ? algorithm : chosen[i];
    row.out_of_place.emplace().time = times[i];
    result.rows.push_back(row);
  }
  return result;
}

/// The planner's choice in a table: tree for small sizes, then ring.
TableResult chosen(const std::vector<double>& times) {
  return table("", times, {"tree", "tree", "tree", "ring", "ring", "ring"});
}

std::string text(const std::vector<TableResult>& tables,
                 Collective collective = Collective::allreduce) {
  BenchConfig config;
  config.collective = collective;
  Environment environment;
  environment.version = "1.0";
  environment.ranks = kRanks;
  environment.transport = "shm";
  environment.host = "host\nring,*,\x1b[2J";
  return rulesText(config, environment, tables);
}

/// Lines without comments and column names.
std::vector<std::string> rules(const std::string& text) {
  std::vector<std::string> found = linesOf(text);
  std::erase_if(found, [](const std::string& line) { return line.starts_with("#"); });
  REQUIRE(!found.empty());
  CHECK(found[0] == "collective,min_bytes,max_bytes,ranks,nodes,algorithm");
  found.erase(found.begin());
  return found;
}

/// Two equal rounds.
std::vector<TableResult> twice(std::vector<TableResult> round) {
  const std::vector<TableResult> again = round;
  round.insert(round.end(), again.begin(), again.end());
  return round;
}

/// Two rounds of the planner's choice and oneshot; the planner's times are the same in both.
std::vector<TableResult> rounds(const std::vector<double>& planned,
                                const std::vector<double>& first,
                                const std::vector<double>& second) {
  return {chosen(planned), table("oneshot", first), chosen(planned), table("oneshot", second)};
}

} // namespace

TEST_CASE("bench --rules: an algorithm is named where it is over 5% faster in both rounds",
          "[rules]") {
  const std::vector<double> planned(6, 100);
  //                        both      one    margin    other     both     none
  const auto tables = rounds(planned, {90, 90, 96, 99, 80, 101}, {94, 99, 96, 90, 90, 101});
  CHECK(rules(text(tables)) == std::vector<std::string>{"allreduce,1024,2047,4,1,oneshot",
                                                        "allreduce,16384,32767,4,1,oneshot"});
}

TEST_CASE("bench --rules: sizes with one winner are one range, which ends at the largest size",
          "[rules]") {
  const std::vector<double> planned(6, 100);
  const auto tables = rounds(planned, {50, 60, 70, 100, 80, 80}, {50, 60, 70, 100, 80, 80});
  const std::string made = text(tables);
  CHECK(rules(made) == std::vector<std::string>{"allreduce,1024,8191,4,1,oneshot",
                                                "allreduce,16384,32768,4,1,oneshot"});
  CHECK(countOf(made,
                "# 1024 bytes: oneshot 50 and 50 us, planner's tree 100 and 100 us; 4096 "
                "bytes: oneshot 70 and 70 us, planner's tree 100 and 100 us\n"
                "allreduce,1024,8191,4,1,oneshot\n") == 1);
}

TEST_CASE("bench --rules: a range goes on while its algorithm is within 5% of the fastest",
          "[rules]") {
  const std::vector<double> planned(6, 100);
  const auto tables = twice({chosen(planned), table("oneshot", {50, 60, 60, 60, 60, 60}),
                             table("direct", {60, 58, 58, 50, 58, 60})});
  CHECK(rules(text(tables)) == std::vector<std::string>{"allreduce,1024,8191,4,1,oneshot",
                                                        "allreduce,8192,32768,4,1,direct"});
}

TEST_CASE("bench --rules: the planner's choice counts with its better time, and is not named",
          "[rules]") {
  const std::vector<double> planned(6, 100), half(6, 50), more{55, 55, 55, 55, 52, 52};
  const auto tables = twice({chosen(planned), table("tree", half), table("ring", more)});
  // From 8 KiB on ring is the choice. Its time of 55 is more than 5% above tree's, 52 is not.
  CHECK(rules(text(tables)) == std::vector<std::string>{"allreduce,8192,16383,4,1,tree"});
}

TEST_CASE("bench --rules: rows of one size, such as those of several roots, are averaged",
          "[rules]") {
  std::vector<TableResult> tables =
      rounds(std::vector<double>(6, 100), std::vector<double>(6, 90), std::vector<double>(6, 90));
  for (TableResult& one : tables) {
    const std::vector<Row> rows = one.rows;
    for (Row row : rows) {
      row.root = 1;
      row.out_of_place->time = one.algorithm.empty() ? 100 : row.bytes < 4096 ? 105 : 99;
      one.rows.push_back(row);
    }
  }
  CHECK(rules(text(tables, Collective::reduce)) ==
        std::vector<std::string>{"reduce,4096,32768,4,1,oneshot"});
}

TEST_CASE("bench --rules: the reader decides by the written file as was measured", "[rules]") {
  const std::vector<double> planned(6, 100);
  const auto tables = twice({chosen(planned), table("oneshot", {50, 70, 70, 100, 99, 60}),
                             table("parameter_server/2", {90, 50, 50, 100, 99, 40})});
  const std::string made = text(tables);
  planner::Policy policy;
  policy.rules_file = std::make_shared<RulesFile>(RulesFile::parse(made, "made.csv"));
  const auto decided = [&](std::size_t bytes, int ranks = kRanks) {
    const planner::Decision one =
        planner::decision({.collective = Collective::allreduce, .ranks = ranks}, bytes, policy);
    return one.by == planner::Decision::By::rules_file ? one.choice.text() : "planner";
  };
  const std::map<std::size_t, std::string> wanted{{1023, "planner"},
                                                  {1024, "oneshot"},
                                                  {2047, "oneshot"},
                                                  {2048, "parameter_server/2"},
                                                  {8191, "parameter_server/2"},
                                                  {8192, "planner"},
                                                  {16384, "planner"},
                                                  {32768, "parameter_server/2"},
                                                  {32769, "planner"}};
  for (const auto& [bytes, algorithm] : wanted) {
    INFO(bytes);
    CHECK(decided(bytes) == algorithm);
  }
  CHECK(decided(1024, kRanks + 1) == "planner");
}

TEST_CASE("bench --rules: a bad path, an existing file and bad options are refused unmeasured",
          "[rules]") {
  const std::string bench = "$RONDO bench allreduce -p 2 -n 1 -e 2K ";
  const auto refused = [&](const std::string& options, int status, const std::string& why) {
    const Outcome outcome = shell(bench + options);
    INFO(options << ": " << outcome.out << outcome.err);
    CHECK(outcome.status == status);
    CHECK(countOf(outcome.err, why) == 1);
    CHECK(outcome.out.empty());
  };
  const TemporaryFolder folder;
  std::ofstream(folder.file("mine.csv")) << "mine";
  refused("--rules " + folder.file("mine.csv"), 2, "exists; remove it, or name another file");
  CHECK(readFile(folder.file("mine.csv")) == "mine");
  refused("--rules " + folder.file("no/r.csv"), 3,
          "--rules: cannot write '" + folder.file("no/r.csv") + "': No such file or directory");
  refused("--rules r.csv -J r.csv", 2, "--output_file and --rules name the same file: r.csv");
  refused("--rules r.csv -b 4 -i 4", 2, "--rules: more than 200 sizes");
  const Outcome none = shell("$RONDO bench sendrecv -p 2 --rules r.csv");
  CHECK(none.status == 2);
  CHECK(countOf(none.err, "sendrecv has no algorithms") == 1);
}

TEST_CASE("bench --rules: measures the planner's choice, whatever RONDO_ALGO says, and writes",
          "[rules]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("r.csv"), options = " -n 2 -b 1K -e 4K --rules " + file;
  const Outcome outcome = shell(
      "RONDO_ALGO=allreduce:ring $RONDO bench allreduce -p 2 "
      "--algorithm oneshot,ring,oneshot" +
      options);
  REQUIRE(outcome.status == 0);
  const std::map<std::string, int> wanted{{"# algorithm: chosen by size\n", 2},
                                          {"# algorithm: ring\n", 2},
                                          {"# algorithm: oneshot\n", 2},
                                          {"bytes on: ring\n", 0}, // oneshot serves 2 ranks
                                          {" in " + file + "\n", 1}};
  for (const auto& [line, count] : wanted) CHECK(countOf(outcome.out, line) == count);
  const RulesFile made = RulesFile::read(file);
  CHECK(countOf(made.text(), "2 ranks on 1 node, transport shm, device cpu\n") == 1);
  for (const RulesFile::Line& line : made.lines()) {
    CHECK(line.ranks == RulesFile::Range{2, 2});
    CHECK(line.bytes.from >= 1024);
    CHECK(line.bytes.to <= 4096);
  }
  CHECK(shell("RONDO_RULES_FILE=" + file + " $RONDO bench allreduce -p 2 -e 8 -n 1").status == 0);
}

} // namespace rondo::test
