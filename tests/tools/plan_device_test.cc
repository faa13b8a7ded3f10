// Tests `rondo plan --ranks-per-gpu`: which algorithms its rows have, and what it refuses.
#include <fstream>

#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

/// The algorithm of each row.
std::vector<std::string> algorithmsOf(const std::string& command) {
  const Outcome outcome = shell(command);
  INFO(command << ": " << outcome.err);
  REQUIRE(outcome.status == 0);
  std::vector<std::string> names;
  for (const std::string& line : linesOf(outcome.out)) {
    std::istringstream words(line);
    std::string bytes, name;
    words >> bytes >> name;
    if (bytes != "bytes") names.push_back(name);
  }
  return names;
}

const std::string kPlan = " $RONDO plan allreduce -p 16 --ranks-per-gpu 16 --bytes 8,64M";
using Names = std::vector<std::string>;

} // namespace

// Proves: the planner's choice is the one that a job with the same settings makes.
TEST_CASE("plan --ranks-per-gpu obeys the settings of jobs", "[plan]") {
  CHECK(algorithmsOf(kPlan) == Names{"butterfly", "ring"});
  CHECK(algorithmsOf("RONDO_ALGO=tree" + kPlan) == Names{"tree", "tree"});
  CHECK(algorithmsOf("RONDO_DETERMINISTIC=1" + kPlan) == Names{"direct", "direct"});
  const TemporaryFolder folder;
  std::ofstream(folder.file("r.csv")) << "collective,min_bytes,algorithm\nallreduce,1M,tree\n";
  CHECK(algorithmsOf("RONDO_RULES_FILE=" + folder.file("r.csv") + kPlan) ==
        Names{"butterfly", "tree"});
  const Outcome wrong = shell("RONDO_ALGO=rnig" + kPlan);
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("RONDO_ALGO: unknown algorithm 'rnig'") != std::string::npos);
  CHECK(shell("RONDO_ALGO='?rnig'" + kPlan).err.find("RONDO_ALGO or") != std::string::npos);
}

TEST_CASE("plan --ranks-per-gpu takes a list of algorithms", "[plan]") {
  CHECK(algorithmsOf(kPlan + " --algorithm ring,tree") == Names{"ring", "tree", "ring", "tree"});
  const Names all = algorithmsOf(kPlan + " --algorithm all");
  CHECK(all.size() > 10);
  CHECK(all[0] == "oneshot");
}

// Proves: no option is taken and then ignored.
TEST_CASE("plan --ranks-per-gpu refuses options that mean nothing to it", "[plan]") {
  for (const std::string option :
       {"--layout 2x8", "--explain", "--oversubscribed", "--tcp", "--link tcp", "--between tcp",
        "--processors 2", "--ideal 1,1", "--profile /p.json", "--check", "--table", "--list"}) {
    INFO(option);
    const Outcome outcome = shell(kPlan + " " + option);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("excludes") != std::string::npos);
    CHECK(outcome.err.find(option.substr(0, option.find(' '))) != std::string::npos);
  }
}

} // namespace rondo::test
