// The user's rules file: lines that name the algorithm for a collective, sizes and ranks.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plan/registry.h"

namespace rondo::planner {

/// The content of a file as Options::rules_file describes it. Immutable, so any thread may read it.
class RulesFile {
 public:
  static constexpr std::size_t kMostBytes = 64 << 10; ///< of a file
  static constexpr std::size_t kLongestLine = 1000;   ///< in bytes

  struct Range {
    std::size_t from = 0, to = std::numeric_limits<std::size_t>::max();

    bool contains(std::size_t value) const { return from <= value && value <= to; }
    bool operator==(const Range&) const = default;
  };

  /// One collective of a line. A line for any collective becomes one Line for each that its
  /// algorithm can do.
  struct Line {
    int number = 0; ///< in the file, from 1 on
    Collective collective{};
    plan::Choice choice;
    Range bytes; ///< of all blocks of a call, as nccl-tests counts them
    Range ranks, nodes;

    /// Whether the line is for a call with blocks of `bytes`. If that is kUneven: whether it is for
    /// any size.
    bool holds(const plan::Spec& spec, std::size_t bytes) const;
  };

  /// `name` only names the text in errors. Throws Error(data) "NAME:LINE: reason".
  static RulesFile parse(std::string text, std::string name);
  /// Throws the errors of parse(), and Error(data) "PATH: reason" if it cannot be read.
  static RulesFile read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  const std::vector<Line>& lines() const { return lines_; }
  /// "NAME:LINE".
  std::string place(const Line& line) const { return name_ + ":" + std::to_string(line.number); }

 private:
  RulesFile(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}

  std::string name_, text_;
  std::vector<Line> lines_;
};

} // namespace rondo::planner
