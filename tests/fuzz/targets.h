// Everything in Rondo that reads bytes or text which others may have written.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::test {

using Input = std::span<const std::byte>;

struct Target {
  std::string_view name; ///< also of its folder in corpus/
  /// Reads the input. Returns false if the reader refuses it by its typed error. Anything else is a
  /// fault: another exception leaves, or, for a value that does not survive writing and reading,
  /// the process ends by abort().
  bool (*run)(Input);
  /// Valid inputs, to begin with.
  std::vector<std::vector<std::byte>> (*seeds)();
};

/// A new reader is a line of this table.
std::span<const Target> targets();

} // namespace rondo::test
