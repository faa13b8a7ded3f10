// Parses XML: elements and attributes, with line numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::base {

/// Throws Error(invalid_argument) "FILE:LINE: WHY".
[[noreturn]] void complain(const std::string& file, int line, const std::string& why);

struct XmlElement {
  std::string name;
  int line = 0; ///< line in which it begins
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  /// Value of the attribute, or null.
  const std::string* find(std::string_view attribute) const;
};

/// Returns the outermost element. Text between elements, comments, instructions and the document
/// type are skipped. Throws as complain() does for text that is not XML, that ends early, or that
/// nests deeper than 256 elements.
XmlElement parseXml(std::string_view text, const std::string& file);

/// The value of an attribute, and the same as a number. Throw as complain() does if the attribute
/// is missing, or is no such number.
const std::string& need(const XmlElement& element, std::string_view attribute,
                        const std::string& file);
std::int64_t needInteger(const XmlElement& element, std::string_view attribute, std::int64_t lowest,
                         std::int64_t highest, const std::string& file);

} // namespace rondo::base
