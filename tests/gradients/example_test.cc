// Tests the example of src/gradients/README.md: it trains the same model on any number of ranks.
#include <cmath>
#include <cstdio>
#include <string>

#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

std::string output(const std::string& command) {
  std::string all;
  FILE* const pipe = ::popen(command.c_str(), "r");
  char line[256];
  while (pipe && std::fgets(line, sizeof line, pipe)) all += line;
  if (!pipe || ::pclose(pipe) != 0) all += "(failed)";
  return all;
}

double lastLoss(int ranks) {
  const std::string text = output(RONDO_COMMAND " run -p " + std::to_string(ranks) + " -- " +
                                  RONDO_TEST_PROGRAMS "/program_own_model");
  INFO(text);
  const auto at = text.rfind("step 3000: loss ");
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find("(failed)") == std::string::npos);
  return std::stod(text.substr(at + 16));
}

} // namespace

TEST_CASE("the example learns, and 2 and 3 ranks learn the same as 1") {
  const double alone = lastLoss(1);
  CHECK(alone < 0.005);
  for (int ranks : {2, 3}) CHECK(std::fabs(lastLoss(ranks) - alone) < 0.05 * alone);
}

} // namespace rondo::test
