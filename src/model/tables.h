// The two tables of the lectures: numbers counted from plans next to the lectures' formulas.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo::model {

/// One cell of a table.
struct TableCell {
  std::string quantity; ///< "rounds"
  std::string system;   ///< "ring"
  std::string formula;  ///< "2(N-1)"; empty if the lectures give none
  std::string unit;     ///< "", "B" or "s"
  double expected = 0;  ///< value of the formula
  double counted = 0;   ///< counted from the algorithm's plans
  int note = 0;         ///< index into Table::notes, from 1; 0: none

  bool equal() const; ///< up to rounding; true if there is no formula
};

struct Table {
  std::string title;
  std::vector<TableCell> cells;   ///< quantity by quantity
  std::vector<std::string> notes; ///< how to read a formula for whole numbers

  bool equal() const;
};

/// Table 1 (wires, rounds, data) and table 2 (alpha-beta costs) for `ranks` workers, M = `bytes`.
/// The notes say how formulas apply to any number of ranks. Throws Error(invalid_argument) for
/// fewer than 2 ranks or less than one byte.
std::vector<Table> lectureTables(int ranks, double bytes, const plan::Link& link = {});

/// Columns of text, a last line that says whether all cells are equal, and the notes.
std::string text(const Table& table);

} // namespace rondo::model
