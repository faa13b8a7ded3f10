// Tests the lecture tables.
#include "model/tables.h"

#include <string>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {

using namespace model;

TEST_CASE("the lecture tables: counted equals formula in every cell, for any number of ranks") {
  for (int p = 2; p <= 33; ++p) {
    for (const double bytes : {1.0, 1e6, 1048576.0}) {
      for (const Table& table : lectureTables(p, bytes)) {
        INFO(text(table));
        CHECK(table.equal());
        CHECK(text(table).find("counted = formula in every cell") != std::string::npos);
        CHECK(text(table).find("DIFFERS") == std::string::npos);
      }
    }
  }
}

TEST_CASE("the lecture tables at 8 ranks hold the lectures' own numbers") {
  const auto tables = lectureTables(8, 1 << 20);
  REQUIRE(tables.size() == 2);
  const auto counted = [&](std::size_t table, const std::string& quantity,
                           const std::string& system) {
    for (const TableCell& cell : tables[table].cells) {
      if (cell.quantity == quantity && cell.system == system) return cell.counted;
    }
    return -1.0;
  };
  constexpr double kM = 1 << 20;
  CHECK(counted(0, "wires of a worker", "tree") == 3);
  CHECK(counted(0, "wires of a worker", "butterfly") == 3);
  CHECK(counted(0, "wires of a worker", "naive") == 7);
  CHECK(counted(0, "rounds", "ring") == 14);
  CHECK(counted(0, "rounds", "tree") == 6);
  CHECK(counted(0, "data a worker sends in a round", "ring") == kM / 8);
  CHECK(counted(0, "data a worker sends in a round", "naive") == 7 * kM);
  CHECK(counted(0, "data sent by all", "parameter server") == 14 * kM);
  CHECK(counted(0, "data sent by all", "butterfly") == 24 * kM);
  CHECK(counted(1, "latency (alphas)", "Allgather") == 3);
  CHECK(counted(1, "bandwidth (bytes on the path)", "PS") == 14 * kM);
}

TEST_CASE("a differing cell is found and reported") {
  auto table = lectureTables(4, 1024)[0];
  table.cells[3].counted += 1;
  CHECK_FALSE(table.cells[3].equal());
  CHECK_FALSE(table.equal());
  CHECK(text(table).find("DIFFERS FROM") != std::string::npos);
  CHECK(text(table).find("1 cells differ") != std::string::npos);
}

TEST_CASE("tables refuse too few ranks or bytes") {
  CHECK_THROWS_AS(lectureTables(1, 1024), Error);
  CHECK_THROWS_AS(lectureTables(8, 0), Error);
}

} // namespace rondo::test
