// Formats numbers and shapes as HTML and SVG text.
#include "train/report/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rondo::training {

namespace {

std::string attribute(std::string_view name, double value) {
  return " " + std::string(name) + "=\"" + fixedText(value, 1) + "\"";
}

std::string styled(std::string_view style) { return " class=\"" + std::string(style) + "\""; }

} // namespace

std::string htmlText(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      default: html += c;
    }
  }
  return html;
}

std::string fixedText(double value, int digits) {
  if (!std::isfinite(value)) return "\u2013";
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string numberText(double value) {
  if (!std::isfinite(value) || value == 0) return fixedText(value, 0);
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  std::string text = fixedText(value, std::clamp(2 - magnitude, 0, 12));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }
  for (std::size_t at = text.size(); at > 3 + (text[0] == '-' ? 1 : 0);) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string bytesText(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fixedText(value, 1) + " " + kUnits[unit];
}

std::string boxText(const Box& box, std::string_view style, std::string_view hint) {
  return "<rect" + styled(style) + attribute("x", box.x) + attribute("y", box.y) +
         attribute("width", box.width) + attribute("height", box.height) + " rx=\"2\"><title>" +
         htmlText(hint) + "</title></rect>\n";
}

std::string labelText(double x, double y, std::string_view anchor, std::string_view text,
                      std::string_view style) {
  return "<text" + styled(style) + attribute("x", x) + attribute("y", y) + " text-anchor=\"" +
         std::string(anchor) + "\">" + htmlText(text) + "</text>\n";
}

std::string lineText(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line" + styled(style) + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
         attribute("y2", y2) + "/>\n";
}

} // namespace rondo::training
