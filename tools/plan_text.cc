// Formats numbers, and aligns columns.
#include "tools/plan_text.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace rondo::tools {

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string timeText(double seconds) {
  if (seconds < 0.9995e-3) return formatted("%.3g us", seconds * 1e6);
  return seconds < 0.9995 ? formatted("%.3g ms", seconds * 1e3) : formatted("%.3g s", seconds);
}

std::string sizeText(double bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return formatted("%.4g", bytes) + kUnits[unit];
}

std::string Columns::text() const {
  std::vector<std::size_t> widths(rows_[0].size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      text += c == 0 ? "  " + row[c] + space : "   " + space + row[c];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

} // namespace rondo::tools
