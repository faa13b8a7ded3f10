// Tests tables of decisions: lookups by size, the text form, and texts that are wrong.
#include "planner/table.h"

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using planner::Table;

const char* const kText =
    "allreduce: oneshot to 8192, parameter_server/2 to 1048576, ring\n"
    "broadcast: hierarchical(linear,ring)\n";

std::string refusal(const std::string& text) {
  try {
    Table::parse(text, "t");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::data);
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("a table survives its text, and each size gets the first choice that covers it") {
  const Table table = Table::parse(kText, "t");
  CHECK(table.text() == kText);
  const auto at = [&](std::size_t bytes) {
    return table.find(Collective::allreduce, bytes)->text();
  };
  CHECK(at(0) == "oneshot");
  CHECK(at(8192) == "oneshot");
  CHECK(at(8193) == "parameter_server/2");
  CHECK(at(1048577) == "ring");
  CHECK(at(~std::size_t{0} - 1) == "ring");
  CHECK(table.find(Collective::broadcast, 1)->text() == "hierarchical(linear,ring)");
  CHECK(table.find(Collective::gather, 1) == nullptr);
  CHECK(Table::parse("", "t").empty());
}

TEST_CASE("neighbours of equal choice become one, and the last serves all larger blocks") {
  Table table;
  const plan::Choice ring = plan::parseChoice("ring"), tree = plan::parseChoice("tree");
  table.set(Collective::allreduce, {{8, tree}, {16, tree}, {32, ring}, {64, ring}});
  CHECK(table.text() == "allreduce: tree to 16, ring\n");
}

TEST_CASE("a wrong text is refused with its line and reason") {
  CHECK(refusal("allreduce: ring\nallreduce: tree\n") == "t:2: allreduce occurs twice");
  CHECK(refusal("allreduce: ring to 8\n") ==
        "t:1: sizes must ascend, and the last choice must have none");
  CHECK(refusal("allreduce: ring to 8, tree to 4, ring\n") ==
        "t:1: sizes must ascend, and the last choice must have none");
  CHECK(refusal("allreduce: ring to 8x, tree\n") == "t:1: '8x' is not a number of bytes");
  CHECK(refusal("allreduce:\n").starts_with("t:1: "));
  CHECK(refusal("allreduce: wring\n").find("wring") != std::string::npos);
  CHECK(refusal("allreducing: ring\n").find("allreducing") != std::string::npos);
}

} // namespace rondo::test
