// Reads JSON, and keeps the line of each value for error texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::base {

/// A value of a JSON text.
struct Json {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  int line = 1;                  ///< where the value begins
  double number = 0;             ///< of a number; 1 for true
  std::string text;              ///< of a string
  std::vector<Json> items;       ///< of an array or object
  std::vector<std::string> keys; ///< of an object, parallel to `items`; no key occurs twice

  /// The value of a key; null if the object does not have it.
  const Json* find(std::string_view key) const;
};

/// Parses a whole text. Throws Error(data) "FILE:LINE: reason"; `file` only names the text. Texts
/// are limited to 1 MiB and 32 levels of nesting, so that a hostile file cannot exhaust memory or
/// stack.
Json parseJson(std::string_view text, const std::string& file);

/// The text in double quotes, escaped as JSON demands.
std::string jsonQuoted(std::string_view text);

} // namespace rondo::base
