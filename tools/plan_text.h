// Text of tables about plans: columns, times, sizes.
#pragma once

#include <string>
#include <vector>

namespace rondo::tools {

/// One number by a format of printf.
std::string formatted(const char* format, double value);
/// Three digits with a unit: "12.3 us".
std::string timeText(double seconds);
/// Four digits with a binary unit: "1.5 MiB".
std::string sizeText(double bytes);

/// Text in columns: the first is aligned left, the others right.
class Columns {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

} // namespace rondo::tools
