// Reads rules files: CSV whose first line names the columns.
#include "planner/rules_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/parse.h"
#include "base/read_file.h"
#include "planner/choose.h"
#include "rondo/error.h"

namespace rondo::planner {

namespace {

using Range = RulesFile::Range;
using Line = RulesFile::Line;

constexpr std::array<std::string_view, 6> kColumns{"collective", "min_bytes", "max_bytes",
                                                   "ranks",      "nodes",     "algorithm"};
enum Column : std::size_t { collective, min_bytes, max_bytes, ranks, nodes, algorithm };

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::data, why); }

/// The text before a comment, without blanks around it.
std::string_view content(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > RulesFile::kLongestLine)
    refuse("the line is longer than " + std::to_string(RulesFile::kLongestLine) + " bytes");
  const auto control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  };
  const auto bad = std::find_if(line.begin(), line.end(), control);
  if (bad != line.end())
    refuse("byte " + std::to_string(bad - line.begin() + 1) + " of the line, " +
           base::quoted(std::string_view(&*bad, 1)) + ", is not text");
  return base::trim(line.substr(0, line.find('#')));
}

/// Commas in brackets do not separate fields. Programs that write CSV put such fields in quotes.
std::vector<std::string_view> fieldsOf(std::string_view text) {
  std::vector<std::string_view> fields = plan::choiceWords(text);
  for (std::string_view& field : fields)
    if (field.size() >= 2 && field.starts_with('"') && field.ends_with('"'))
      field = base::trim(field.substr(1, field.size() - 2));
  return fields;
}

/// "8", "2-8" or "9-".
Range rangeOf(std::string_view text, std::string_view what) {
  if (text.empty()) return {};
  const auto number = [&](std::string_view digits) {
    digits = base::trim(digits);
    std::size_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stop != end || value == 0)
      refuse(std::string(what) + ": " + base::quoted(text) +
             " is not a number from 1 on, or a range such as 2-8 or 9-");
    return value;
  };
  const std::size_t dash = text.find('-');
  Range range;
  range.from = range.to = number(text.substr(0, dash));
  if (dash == text.npos) return range;
  const std::string_view last = base::trim(text.substr(dash + 1));
  range.to = last.empty() ? Range().to : number(last);
  if (range.from > range.to)
    refuse(std::string(what) + ": the range " + base::quoted(text) + " is empty");
  return range;
}

Range bytesOf(std::string_view least, std::string_view most) {
  Range range;
  if (!least.empty()) range.from = base::parseBytes(least, kColumns[min_bytes]);
  if (!most.empty()) range.to = base::parseBytes(most, kColumns[max_bytes]);
  if (range.from > range.to)
    refuse("min_bytes " + std::string(least) + " is more than max_bytes " + std::string(most));
  return range;
}

/// The collectives that a line is for. If it names one, the algorithm must be able to do it.
std::vector<Collective> collectivesOf(std::string_view word, const plan::Choice& choice) {
  std::vector<Collective> found;
  if (!word.empty()) {
    found.push_back(parseCollective(word));
    plan::parseAlgorithms(std::string(name(found[0])) + ":" + choice.text(), found[0]); // throws
    return found;
  }
  for (const Collective one : kCollectives)
    if (!plan::parseAlgorithms(choice.text(), one).empty()) found.push_back(one);
  return found;
}

/// Reads the lines of a file one after the other.
class Reader {
 public:
  /// Throws Error, whose text does not name the line.
  void read(std::string_view text, int number) {
    const std::string_view line = content(text);
    if (line.empty()) return;
    if (columns_.empty()) readColumns(fieldsOf(line));
    else readRule(fieldsOf(line), number);
  }
  bool begun() const { return !columns_.empty(); }
  std::vector<Line> take() { return std::move(lines_); }

 private:
  void readColumns(const std::vector<std::string_view>& names) {
    std::vector<std::size_t> columns;
    for (const std::string_view name : names) {
      const auto at = std::ranges::find(kColumns, name);
      if (at == kColumns.end())
        refuse("unknown column " + base::quoted(name) +
               "; the first line names the columns: " + base::join(kColumns, ","));
      columns.push_back(static_cast<std::size_t>(at - kColumns.begin()));
      if (std::ranges::count(columns, columns.back()) > 1)
        refuse("the column " + std::string(name) + " occurs twice");
    }
    for (const Column needed : {collective, algorithm})
      if (std::ranges::count(columns, needed) == 0)
        refuse("the column " + std::string(kColumns[needed]) + " is missing");
    columns_ = std::move(columns);
  }

  void readRule(const std::vector<std::string_view>& fields, int number) {
    if (fields.size() != columns_.size())
      refuse("the number of fields is " + std::to_string(fields.size()) + ", that of columns " +
             std::to_string(columns_.size()));
    std::array<std::string_view, kColumns.size()> at{}; // empty: any
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (fields[i] != "*") at[columns_[i]] = fields[i];
    if (at[algorithm].empty()) refuse("the algorithm is missing");
    Line line{.number = number,
              .choice = plan::parseChoice(at[algorithm]),
              .bytes = bytesOf(at[min_bytes], at[max_bytes]),
              .ranks = rangeOf(at[ranks], kColumns[ranks]),
              .nodes = rangeOf(at[nodes], kColumns[nodes])};
    for (const Collective one : collectivesOf(at[collective], line.choice)) {
      line.collective = one;
      lines_.push_back(line);
    }
  }

  std::vector<std::size_t> columns_; ///< the column of each field; empty before the first line
  std::vector<Line> lines_;
};

} // namespace

bool RulesFile::Line::holds(const plan::Spec& spec, std::size_t block) const {
  if (spec.collective != collective || !ranks.contains(static_cast<std::size_t>(spec.ranks)) ||
      !nodes.contains(spec.layout.nodes().size()))
    return false;
  if (block == kUneven) return bytes == Range();
  // Limits are rounded down to a size of blocks, as the benchmark rounds sizes.
  const std::size_t blocks = traits(collective).blocksOfSize(spec.ranks);
  return Range{bytes.from / blocks, bytes.to / blocks}.contains(block);
}

RulesFile RulesFile::parse(std::string text, std::string name) {
  RulesFile file(std::move(name), std::move(text));
  if (file.text_.size() > kMostBytes)
    refuse(file.name_ + ": a rules file has at most " + base::formatBytes(kMostBytes) + " bytes");
  std::string_view left = file.text_;
  if (left.starts_with("\xEF\xBB\xBF")) left.remove_prefix(3); // spreadsheets write it
  Reader reader;
  int number = 0;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    ++number;
    try {
      reader.read(left.substr(0, end), number);
    } catch (const Error& error) {
      refuse(file.name_ + ":" + std::to_string(number) + ": " + error.what());
    }
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  if (!reader.begun())
    refuse(file.name_ + ":" + std::to_string(number + 1) +
           ": the file ends before a line that names the columns: " + base::join(kColumns, ","));
  file.lines_ = reader.take();
  return file;
}

RulesFile RulesFile::read(const std::string& path) {
  const auto unreadable = [&] {
    refuse(path + ": the rules file cannot be read: " + std::strerror(errno));
  };
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) unreadable();
  // Opening a pipe could wait, and reading a device could never end.
  if (!S_ISREG(about.st_mode))
    refuse(path + (S_ISDIR(about.st_mode) ? ": is a directory" : ": is not a regular file") +
           ", so it is no rules file");
  if (static_cast<std::size_t>(about.st_size) > kMostBytes)
    refuse(path + ": has " + std::to_string(about.st_size) + " bytes; a rules file has at most " +
           base::formatBytes(kMostBytes));
  auto text = base::readFile(path);
  if (!text) unreadable();
  return parse(std::move(*text), path);
}

} // namespace rondo::planner
