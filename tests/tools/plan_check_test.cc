// Tests which algorithms and layouts `rondo plan --check` proves.
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {

TEST_CASE("plan --check: proves the algorithms that are named, with their parameters", "[plan]") {
  const auto last = [](const std::string& options) {
    const Outcome outcome = shell("$RONDO plan " + options);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    return linesOf(outcome.out).back();
  };
  const auto proves = [&](const std::string& options, const std::string& what) {
    const std::string line = last(options);
    INFO(options << ": " << line);
    CHECK(line.starts_with("total: " + what));
    CHECK(line.ends_with("all proved"));
  };
  proves("gather --check --algorithm linear/5 -p 8", "8 plans of 1 algorithms"); // of each root
  proves("allreduce --check --algorithm ring,tree -p 4", "2 plans of 2 algorithms");
  proves("allreduce --check --algorithm 'hierarchical(linear,ring)' --layout 4x2 -p 2,8",
         "3 plans of 1 algorithms");
  CHECK(last("--check --algorithm all -p 2-4") == last("--check -p 2-4"));
}

TEST_CASE("plan --check: a layout of another number of ranks is refused", "[plan]") {
  for (const char* ranks : {"16", "2-7"}) {
    const Outcome outcome = shell(std::string("$RONDO plan --check --layout 4x2 -p ") + ranks);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("layout '4x2' has 8 ranks, a number that -p does not include") !=
          std::string::npos);
  }
}

} // namespace rondo::test
