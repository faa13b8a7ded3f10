// Tests plans as GOAL text: messages, reductions, and which profile gives their times.
#include "tools/plan_goal.h"

#include <fstream>
#include <set>

#include "model/profile_file.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

using namespace tools;

TEST_CASE("exports: GOAL has all messages of all plans, in both directions", "[export]") {
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  const plan::Algorithm& ring = *plan::findAlgorithm("ring");
  const std::string text = goalText(ring, spec, 4096, model::defaultProfile());
  CHECK(linesOf(text)[0] == "num_ranks 4");
  CHECK(countOf(text, "send 1024b to ") == 4 * 6);
  CHECK(countOf(text, "recv 1024b from ") == 4 * 6);
  CHECK(countOf(text, "rank 3 {") == 1);
  // Every label that is required is defined in the same rank.
  std::set<std::string> labels;
  for (const std::string& line : linesOf(text)) {
    if (line.rfind("rank ", 0) == 0) labels.clear();
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (!first.empty() && first.back() == ':') {
      CHECK(labels.insert(first.substr(0, first.size() - 1)).second);
    } else if (second == "requires") {
      CHECK(labels.contains(first));
      CHECK(labels.contains(third));
    }
  }
  CHECK_THROWS_AS(goalText(*plan::findAlgorithm("nvls"),
                           {.collective = Collective::allreduce, .ranks = 4, .multicast = true}, 8,
                           model::defaultProfile()),
                  Error);
}

TEST_CASE("exports: messages of a barrier are as short as GOAL allows", "[export]") {
  const TemporaryFolder folder;
  const std::string goal = folder.file("barrier.goal");
  const std::string call = "$RONDO plan barrier -p 4 --algorithm dissemination ";
  for (const char* bytes : {"", "--bytes 1M "}) {
    REQUIRE(shell(call + bytes + "--goal " + goal).status == 0);
    CHECK(countOf(readFile(goal), "send 1b to ") == 4 * 2);
    CHECK(countOf(readFile(goal), "send ") == 4 * 2);
  }
  CHECK(countOf(shell(call + "--bytes 1M").out, "tile") == 0);
}

// Proves: a reduction takes the time that a simulation gives it, with the profile of jobs.
TEST_CASE("exports: GOAL has the times of reductions that jobs are predicted with", "[export]") {
  model::Profile profile = model::defaultProfile();
  profile.reduce.fill(model::Levels({{1 << 20, 1e-9}, {2 << 20, 3e-9}}));
  const plan::Spec spec{.collective = Collective::allreduce, .ranks = 4};
  const plan::Algorithm& ring = *plan::findAlgorithm("ring");
  // A rank works on its input and its output. Its chunks are small, but these are not.
  CHECK(countOf(goalText(ring, spec, 4096, profile), ": calc 1024\n") == 4 * 3);
  CHECK(countOf(goalText(ring, spec, 1 << 20, profile), ": calc 786432\n") == 4 * 3);

  const TemporaryFolder folder;
  const std::string file = folder.file("p.json"), goal = folder.file("ring.goal");
  profile.reduce[2] = model::Levels({{1 << 20, 3e-9}});
  std::ofstream(file) << model::profileText(profile);
  REQUIRE(shell("RONDO_PROFILE=" + file +
                " $RONDO plan allreduce -p 4 --algorithm ring --bytes 4K " + "--goal " + goal)
              .status == 0);
  CHECK(countOf(readFile(goal), ": calc 3072\n") == 4 * 3);
}

} // namespace rondo::test
