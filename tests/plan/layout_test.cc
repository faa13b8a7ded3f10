// Tests that layouts are parsed, printed and divided.
#include "plan/layout.h"

#include <string>
#include <vector>

#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {

using namespace plan;

TEST_CASE("every text form gives its layout, and the layout gives the text") {
  using Groups = std::vector<std::vector<int>>;
  const std::vector<std::pair<std::string, Groups>> forms{
      {"", {}},
      {"2x3", {{0, 0, 0, 1, 1, 1}}},
      {"2x2x2", {{0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}}},
      {"3,1,2", {{0, 0, 0, 1, 2, 2}}},
      {"2,1,2", {{0, 0, 1, 2, 2}}},
      {"0.1.0.1", {{0, 1, 0, 1}}},
      {"0.0.1.1/0.1.2.2", {{0, 0, 1, 1}, {0, 1, 2, 2}}},
  };
  for (const auto& [written, groups] : forms) {
    CAPTURE(written);
    const Layout layout = parseLayout(written);
    CHECK(layout.groups == groups);
    CHECK(text(layout) == written);
  }
  CHECK(text(parseLayout("5.5.9.9")) == "2x2"); // any numbers may name the nodes
  CHECK(text(parseLayout("2,2")) == "2x2");
  CHECK(text(parseLayout("4")) == "1x4");
}

TEST_CASE("nodes() and within() give the ranks of nodes and their inner levels") {
  const Layout layout = parseLayout("0.1.0.1.2/0.1.2.3.4");
  CHECK(layout.nodes() == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}});
  CHECK(layout.within({1, 3}).groups == std::vector<std::vector<int>>{{0, 1}});
  CHECK(layout.clustered());
  CHECK_FALSE(parseLayout("1x4").clustered());
  CHECK_FALSE(parseLayout("4x1").clustered());
  CHECK_FALSE(Layout{}.clustered());
  CHECK(parseLayout("2x2x2").within({0, 1, 2, 3}) == parseLayout("2x2"));
}

TEST_CASE("an invalid layout is refused with the reason") {
  const auto refused = [](const char* written, int ranks, const char* why) {
    CAPTURE(written);
    CHECK(says(caught([&] { parseLayout(written, ranks); }), ErrorCode::invalid_argument,
               {why, "valid: 4x2"}));
  };
  refused("2y2", 0, "'2y2' where a number");
  refused("2x", 0, "'' where a number");
  refused("0x4", 0, "'0' where a number from 1");
  refused("4,-1", 0, "'-1' where");
  refused("4x2", 9, "has 8 ranks, not 9");
  refused("99999999999x1", 0, "where a number");
  refused("60000x60000", 0, "more than 1048576 ranks");
  refused("600000,600000", 0, "more than 1048576 ranks");
  refused("0.0.1/0.1", 0, "different numbers of ranks");
  refused("0.1/0.0", 0, "belongs to two groups of the level above");
}

} // namespace rondo::test
