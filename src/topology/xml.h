// Parses XML as hwloc writes it: elements and attributes, with line numbers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::topology {

/// Throws Error(invalid_argument) "FILE:LINE: WHY".
[[noreturn]] void complain(const std::string& file, int line, const std::string& why);

struct Element {
  std::string name;
  int line = 0; ///< line in which it begins
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<Element> children;

  /// Value of the attribute, or null.
  const std::string* find(std::string_view attribute) const;
};

/// Returns the outermost element. Text between elements, comments, instructions and the document
/// type are skipped. Throws as complain() does for text that is not XML, that ends early, or that
/// nests deeper than 256 elements.
Element parseXml(std::string_view text, const std::string& file);

} // namespace rondo::topology
