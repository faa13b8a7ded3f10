// XML as hwloc writes it: elements and attributes, each with its line.
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
  int line = 0; ///< where it begins
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<Element> children;

  /// Null when it has no such attribute.
  const std::string* find(std::string_view attribute) const;
};

/// The outermost element. Texts between elements are skipped, as are comments, instructions and the
/// document type. Throws as complain() for what is no XML, ends early, or nests deeper than 256.
Element parseXml(std::string_view text, const std::string& file);

} // namespace rondo::topology
