// Tests rules files: what a line means, which line decides, and how damaged files are refused.
#include "planner/rules_file.h"

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <utility>

#include "planner/choose.h"
#include "planner/decide.h"
#include "planner/explain.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/temporary_folder.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using planner::RulesFile;

RulesFile parsed(const std::string& text) { return RulesFile::parse(text, "r.csv"); }

/// "allreduce 0-65536 ranks 2-8 nodes 1- oneshot", one for each collective of a line.
std::vector<std::string> shown(const std::string& text) {
  const auto range = [](const RulesFile::Range& one) {
    const bool open = one.to == RulesFile::Range().to;
    return std::to_string(one.from) + "-" + (open ? "" : std::to_string(one.to));
  };
  const RulesFile file = parsed(text);
  std::vector<std::string> lines;
  for (const RulesFile::Line& line : file.lines())
    lines.push_back(std::to_string(line.number) + " " + std::string(name(line.collective)) + " " +
                    range(line.bytes) + " ranks " + range(line.ranks) + " nodes " +
                    range(line.nodes) + " " + line.choice.text());
  return lines;
}

/// What decides a call of 4 ranks: "ring by rules file r.csv:2", with what was passed over.
std::string decided(const planner::Policy& policy, Collective collective, std::size_t bytes) {
  const planner::Decision made =
      planner::decision({.collective = collective, .ranks = 4}, bytes, policy);
  return made.choice.text() + " by " + planner::decidedBy(made) +
         (made.passed_over.empty() ? "" : "; " + made.passed_over);
}

planner::Policy withRules(const std::string& text) {
  planner::Policy policy;
  policy.rules_file = std::make_shared<RulesFile>(parsed(text));
  return policy;
}

const std::string kColumns = "collective,min_bytes,max_bytes,ranks,nodes,algorithm\n";

} // namespace

TEST_CASE("a line of a rules file: fields, wildcards, suffixes, ranges, comments, quotes") {
  const std::pair<const char*, const char*> grid[] = {
      {"allreduce,0,64K,2-8,1,oneshot", "2 allreduce 0-65536 ranks 2-8 nodes 1-1 oneshot"},
      {"allreduce,,,,,ring", "2 allreduce 0- ranks 0- nodes 0- ring"},
      {"allreduce,*,*,*,*,ring", "2 allreduce 0- ranks 0- nodes 0- ring"},
      {" AllReduce ,\t1k , 1M,4 , 2- , Ring ", "2 allreduce 1024-1048576 ranks 4-4 nodes 2- ring"},
      {"all_reduce,1GiB,,9-,,ring\r", "2 allreduce 1073741824- ranks 9- nodes 0- ring"},
      {"bcast,8,8,,,tree # why", "2 broadcast 8-8 ranks 0- nodes 0- tree"},
      {"allreduce,,,,,parameter_server/4", "2 allreduce 0- ranks 0- nodes 0- parameter_server/4"},
      {"allreduce,,,,,hierarchical(linear,ring)",
       "2 allreduce 0- ranks 0- nodes 0- hierarchical(linear,ring)"},
      {"\"allreduce\",,,,,\"hierarchical(linear,ring)\"",
       "2 allreduce 0- ranks 0- nodes 0- hierarchical(linear,ring)"},
  };
  for (const auto& [line, wanted] : grid) {
    CAPTURE(line);
    CHECK(shown(kColumns + line) == std::vector<std::string>{wanted});
    CHECK(shown(kColumns + line + "\n") == std::vector<std::string>{wanted});
  }
}

TEST_CASE("the columns of a rules file stand in any order, and most may be missing") {
  const std::vector<std::string> wanted{"4 reduce 0-100 ranks 0- nodes 0- tree"};
  CHECK(shown("# comment\n\nalgorithm,max_bytes,collective\ntree,100,reduce\n") == wanted);
  CHECK(shown("\xEF\xBB\xBF\r\n\r\nalgorithm,max_bytes,collective\r\ntree,100,reduce\r\n") ==
        wanted);
  CHECK(shown("collective,algorithm\n").empty()); // a rules file without rules
}

TEST_CASE("a line for any collective is for those that its algorithm can do") {
  const planner::Policy policy = withRules("collective,algorithm\n*,bruck\n");
  CHECK(decided(policy, Collective::allgather, 8) == "bruck by rules file r.csv:2");
  CHECK(decided(policy, Collective::alltoall, 8) == "bruck by rules file r.csv:2");
  CHECK(decided(policy, Collective::broadcast, 8) == "tree by rules");
}

TEST_CASE("a damaged rules file is refused with its line and the reason") {
  const std::string good = kColumns + "allreduce,,,,,ring\n";
  const std::string long_line(RulesFile::kLongestLine + 1, '#');
  using namespace std::string_literals;
  const std::pair<std::string, std::string> damaged[] = {
      {"", "r.csv:1: the file ends before a line that names the columns: collective,min_bytes"},
      {"# only\n# comments", "r.csv:3: the file ends before"},
      {"allreduce,0,1M,8,ring\n", "r.csv:1: unknown column \"allreduce\"; the first line names"},
      {"collective,channels,algorithm\n", "r.csv:1: unknown column \"channels\""},
      {"collective,algorithm,collective\n", "r.csv:1: the column collective occurs twice"},
      {"collective,ranks\n", "r.csv:1: the column algorithm is missing"},
      {"\nalgorithm,ranks\n", "r.csv:2: the column collective is missing"},
      {good + "allreduce,,,,ring\n", "r.csv:3: the number of fields is 5, that of columns 6"},
      {good + "allreduce,,,,,ring,\n", "r.csv:3: the number of fields is 7, that of columns 6"},
      {good + "allreduce,,,,,hierarchical(linear,ring\n", "r.csv:3: "},
      {good + "\n#\nallsum,,,,,ring", "r.csv:5: unknown collective \"allsum\"; valid: allreduce"},
      {good + "allreduce,,,,,rnig", "r.csv:3: unknown algorithm 'rnig'; valid: "},
      {good + "allreduce,,,,,^ring", "r.csv:3: unknown algorithm '^ring'; valid: "},
      {good + "allreduce,,,,,ring;reduce:tree", "r.csv:3: unknown algorithm 'ring;reduce:tree'"},
      {good + "allreduce,,,,,ring/0", "r.csv:3: the parameter in 'ring/0' must be"},
      {good + "allreduce,,,,,", "r.csv:3: the algorithm is missing"},
      {good + "allreduce,,,,,*", "r.csv:3: the algorithm is missing"},
      {good + "broadcast,,,,,bruck", "r.csv:3: algorithm 'bruck' cannot do broadcast; valid: "},
      {good + "sendrecv,,,,,ring", "r.csv:3: algorithm 'ring' cannot do sendrecv"},
      {good + "allreduce,many,,,,ring", "r.csv:3: min_bytes: \"many\" is not a number of bytes"},
      {good + "allreduce,-1,,,,ring", "r.csv:3: min_bytes: \"-1\" is not a number of bytes"},
      {good + "allreduce,,1e6,,,ring", "r.csv:3: max_bytes: \"1e6\" is not a number of bytes"},
      {good + "allreduce,,99999999999G,,,ring", "r.csv:3: max_bytes: \"99999999999G\" is not"},
      {good + "allreduce,1M,64K,,,ring", "r.csv:3: min_bytes 1M is more than max_bytes 64K"},
      {good + "allreduce,,,0,,ring", "r.csv:3: ranks: \"0\" is not a number from 1 on, or a range"},
      {good + "allreduce,,,-8,,ring", "r.csv:3: ranks: \"-8\" is not a number"},
      {good + "allreduce,,,2-3-4,,ring", "r.csv:3: ranks: \"2-3-4\" is not a number"},
      {good + "allreduce,,,,two,ring", "r.csv:3: nodes: \"two\" is not a number"},
      {good + "allreduce,,,8-2,,ring", "r.csv:3: ranks: the range \"8-2\" is empty"},
      {good + "all\0reduce,,,,,ring"s, "r.csv:3: byte 4 of the line, \"\\x00\", is not text"},
      {good + "# \x1b[2J", "r.csv:3: byte 3 of the line, \"\\x1b\", is not text"},
      {good + "allreduce,,,,,ring\rreduce", "r.csv:3: byte 19 of the line"},
      {good + long_line, "r.csv:3: the line is longer than 1000 bytes"},
      {good + std::string(RulesFile::kMostBytes, '\n'), "r.csv: a rules file has at most 64K"},
  };
  for (const auto& [text, reason] : damaged) {
    CAPTURE(text.substr(0, 200));
    const Caught error = caught([&, &text = text] { parsed(text); });
    CHECK(says(error, ErrorCode::data, {reason.c_str()}));
    CHECK(error.text.starts_with("r.csv:"));
  }
}

// Proves: nothing but a file of limited size is read, so that reading ends.
TEST_CASE("what is not a rules file is refused by name: missing, a directory, a pipe, too large") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const char* reason) {
    const std::string path = folder.file(name);
    const Caught error = caught([&] { RulesFile::read(path); });
    CHECK(error.text.starts_with(path + ": "));
    CHECK(says(error, ErrorCode::data, {reason}));
  };
  refused("missing.csv", "the rules file cannot be read: No such file or directory");
  refused("", "is a directory");
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  refused("pipe", "is not a regular file");
  std::ofstream(folder.file("large.csv")) << std::string(RulesFile::kMostBytes + 1, '\n');
  refused("large.csv", "has 65537 bytes; a rules file has at most 64K");
  CHECK(says(caught([] { RulesFile::read("/dev/zero"); }), ErrorCode::data,
             {"/dev/zero: is not a regular file"}));
  std::ofstream(folder.file("good.csv")) << "collective,algorithm\nreduce,tree\n";
  CHECK(RulesFile::read(folder.file("good.csv")).lines().size() == 1);
}

// Proves: limits are sizes of all blocks, and are rounded down to whole blocks.
TEST_CASE("limits of a rules file are sizes as the benchmark counts them") {
  const RulesFile file = parsed(kColumns +
                                "allgather,1000,1999,,,ring\nallreduce,1000,1999,,,ring\n"
                                "allreduce,,,,,tree\n");
  const RulesFile::Line &gather = file.lines()[0], &reduce = file.lines()[1];
  struct Limits {
    int ranks;
    std::size_t least, most; // of one block
  };
  for (const auto& [ranks, least, most] :
       {Limits{1, 1000, 1999}, Limits{2, 500, 999}, Limits{3, 333, 666}, Limits{7, 142, 285}}) {
    CAPTURE(ranks);
    const plan::Spec spec{.collective = Collective::allgather, .ranks = ranks};
    CHECK_FALSE(gather.holds(spec, least - 1));
    CHECK(gather.holds(spec, least));
    CHECK(gather.holds(spec, most));
    CHECK_FALSE(gather.holds(spec, most + 1));
  }
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  for (const std::size_t size : {999, 1000, 1999, 2000})
    CHECK(reduce.holds(spec, size) == (size >= 1000 && size < 2000));
  CHECK_FALSE(reduce.holds(spec, planner::kUneven));
  CHECK(file.lines()[2].holds(spec, planner::kUneven));
  CHECK(file.lines()[2].holds(spec, std::size_t{1} << 60));
}

TEST_CASE("calls with blocks of different sizes follow only lines for any size") {
  planner::Policy policy = withRules(kColumns +
                                     "allgather,1,,,,bruck\nallgather,,1G,,,bruck\n"
                                     "allgather,0,*,,,ring\n");
  CHECK(decided(policy, Collective::allgather, 8) == "bruck by rules file r.csv:2");
  CHECK(decided(policy, Collective::allgather, planner::kUneven) == "ring by rules file r.csv:4");
}

TEST_CASE("lines hold for their ranks and nodes") {
  const RulesFile file = parsed(kColumns + "allreduce,,,2-4,,ring\nallreduce,,,,2-,tree\n");
  for (const int ranks : {1, 2, 4, 5})
    CHECK(file.lines()[0].holds({.collective = Collective::allreduce, .ranks = ranks}, 8) ==
          (ranks == 2 || ranks == 4));
  plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  CHECK_FALSE(file.lines()[1].holds(spec, 8)); // one node
  spec.layout = plan::parseLayout("2x2");
  CHECK(file.lines()[1].holds(spec, 8));
}

TEST_CASE("the first line that can be followed decides; lines before it are named with reasons") {
  planner::Policy policy = withRules(
      "collective,max_bytes,algorithm\n"
      "allreduce,100,nvls\n"
      "allreduce,100,ring\n"
      "allreduce,100,tree\n"
      "allreduce,200,nvls\n");
  const std::string switchless =
      "nvls needs a switch between all ranks' GPUs that was proved when the communicator was "
      "opened, and that reduces this type by this operator";
  CHECK(decided(policy, Collective::allreduce, 100) ==
        "ring by rules file r.csv:3; r.csv:2: " + switchless);
  CHECK(decided(policy, Collective::allreduce, 200) ==
        "butterfly by rules; r.csv:5: " + switchless);
  CHECK(decided(policy, Collective::allreduce, 201) == "butterfly by rules");
  CHECK(decided(policy, Collective::reduce, 100) == "tree by rules");
  std::string many = "collective,algorithm\n";
  for (int i = 0; i < 100; ++i) many += "allreduce,nvls\n";
  const std::string text = decided(withRules(many), Collective::allreduce, 8);
  CHECK(text.find("r.csv:5: nvls needs") != std::string::npos);
  CHECK(text.ends_with("; and 96 more lines"));
  policy.deterministic = true; // a ring does not reduce in rank order
  CHECK(decided(policy, Collective::allreduce, 100).starts_with("oneshot by rules; r.csv:2: "));
  CHECK(decided(policy, Collective::allreduce, 100)
            .find("; r.csv:3: ring does not reduce in rank order, as deterministic mode demands") !=
        std::string::npos);
}

TEST_CASE("RONDO_ALGO comes before the rules file, and the rules file before the model") {
  planner::Policy policy = withRules("collective,algorithm\nallreduce,tree\n");
  policy.table = std::make_shared<planner::Table>(
      planner::Table::parse("allreduce: ring\nreduce: chain\n", "t"));
  CHECK(decided(policy, Collective::allreduce, 8) == "tree by rules file r.csv:2");
  CHECK(decided(policy, Collective::reduce, 8) == "chain by model");
  policy.algorithms = "reduce:tree";
  CHECK(decided(policy, Collective::allreduce, 8) == "tree by rules file r.csv:2");
  policy.algorithms = "direct";
  CHECK(decided(policy, Collective::allreduce, 8) == "direct by RONDO_ALGO");
  policy.algorithms = "?nvls"; // a wish that cannot be fulfilled
  CHECK(decided(policy, Collective::allreduce, 8) == "tree by rules file r.csv:2");
}

// Tables are kept for later communicators, which may have other rules.
TEST_CASE("the model's table does not depend on the rules file") {
  planner::Policy policy;
  policy.site = {.inside = model::LinkClass::shm, .between = model::LinkClass::network};
  const std::string table = planner::decide(2, policy, model::defaultProfile()).text();
  policy.rules_file =
      std::make_shared<RulesFile>(parsed("collective,algorithm\n*,linear\n"
                                         "allreduce,tree\nalltoall,bruck\n"));
  CHECK(planner::decide(2, policy, model::defaultProfile()).text() == table);
}

TEST_CASE("an explanation names the line of the rules file, and those that it passes over") {
  const planner::Policy policy =
      withRules("collective,algorithm\nallreduce,nvls\nallreduce,tree\n");
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  const planner::SiteNetwork site(policy.site, model::defaultProfile());
  const Explanation made = planner::explain(
      spec, {.bytes = 1 << 20}, policy, planner::decision(spec, 1 << 20, policy), site.network());
  CHECK(made.algorithm == "tree");
  CHECK(made.decided_by == "rules file r.csv:3");
  CHECK(made.why.find("; the call uses tree, which is predicted to take ") != std::string::npos);
  CHECK(made.why.find(". Passed over: r.csv:2: nvls needs a switch") != std::string::npos);
}

} // namespace rondo::test
