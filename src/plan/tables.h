// The two tables of the lectures, counted from plans beside their formulas.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// One cell of a table.
struct TableCell {
  std::string quantity; ///< "rounds"
  std::string system;   ///< "ring"
  std::string formula;  ///< "2(N-1)"; empty where the lectures say nothing
  std::string unit;     ///< "", "B" or "s"
  double expected = 0;  ///< the formula's value
  double counted = 0;   ///< from the plans of the algorithm
  int note = 0;         ///< index into Table::notes, from 1; 0: none

  bool equal() const; ///< up to rounding; true where there is no formula
};

struct Table {
  std::string title;
  std::vector<TableCell> cells;   ///< quantity by quantity
  std::vector<std::string> notes; ///< how a formula is to be read for whole numbers

  bool equal() const;
};

/// Table 1 (wires, rounds, data) and table 2 (alpha-beta costs) for `ranks` workers, M = `bytes`.
/// Formulas are read for any number of ranks as the notes say.
/// Throws Error(invalid_argument) for fewer than 2 ranks or less than one byte.
std::vector<Table> lectureTables(int ranks, double bytes, const Link& link = {});

/// Columns of text, a closing line that says whether all cells are equal, and the notes.
std::string text(const Table& table);

} // namespace rondo::plan
