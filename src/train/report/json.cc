// Escapes strings and formats numbers for JSON.
#include "train/report/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace rondo::training {

std::string jsonText(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escaped;
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
      json += escaped.data();
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string jsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> digits;
  const auto [end, fault] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

} // namespace rondo::training
