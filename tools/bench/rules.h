// Turns the benchmark's results into a rules file (--rules).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/bench/config.h"
#include "tools/bench/result.h"
#include "tools/bench/table.h"

namespace rondo::tools {

/// An algorithm is named only if it was faster than the planner's choice by more than this part of
/// its own time, in every round.
inline constexpr double kRuleMargin = 0.05;
/// So many sizes at most: a rules file has at most 64 KiB.
inline constexpr std::size_t kMostRuleSizes = 200;

/// The tables of --rules: the planner's choice ("") and then each algorithm; all of this twice, so
/// that a disturbance does not meet one algorithm alone.
std::vector<std::string> tablesForRules(const std::vector<std::string>& algorithms);

/// The rules file: for each measured size the fastest algorithm, if it was faster than the
/// planner's choice by the margin in every round. An algorithm stays named at the next size if it
/// is within the margin of the fastest there. A rule's sizes end below the next measured size, or
/// at the largest. Times of rows with the same size (types, operators, roots) are averaged. Above
/// each rule a comment gives the times at its first and last measured size. `tables`: as measured
/// for tablesForRules().
std::string rulesText(const BenchConfig& config, const Environment& environment,
                      const std::vector<TableResult>& tables);

/// Checks, before anything is measured, that writeRules() will be able to write. Throws
/// Error(invalid_argument) if the file exists, and Error(system) if it cannot be made.
void requireNewRules(const std::string& path);
/// Writes the file, and returns a line that says so. If the benchmark found wrong results, writes
/// nothing and says why. Throws Error(system), also if the file exists.
std::string writeRules(const BenchConfig& config, const Environment& environment,
                       const std::vector<TableResult>& tables);

} // namespace rondo::tools
