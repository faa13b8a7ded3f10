// Looks up decisions, and turns them into lines and back.
#include "planner/table.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "rondo/error.h"

namespace rondo::planner {

namespace {

constexpr std::size_t kRest = std::numeric_limits<std::size_t>::max();

/// Cuts the text up to the first separator off the front; all of it, if there is none.
std::string_view cutWord(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + separator.size());
  return word;
}

Table::Entry parseEntry(std::string_view text) {
  Table::Entry entry{.up_to = kRest, .choice = {}};
  entry.choice = plan::parseChoice(cutWord(text, " to "));
  if (text.empty()) return entry;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), entry.up_to);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::data, "'" + std::string(text) + "' is not a number of bytes");
  return entry;
}

std::vector<Table::Entry> parseEntries(std::string_view text) {
  std::vector<Table::Entry> entries;
  while (!text.empty()) entries.push_back(parseEntry(cutWord(text, ", ")));
  const bool ascend = std::is_sorted(
      entries.begin(), entries.end(),
      [](const Table::Entry& a, const Table::Entry& b) { return a.up_to <= b.up_to; });
  if (entries.empty() || !ascend || entries.back().up_to != kRest)
    throw Error(ErrorCode::data, "sizes must ascend, and the last choice must have none");
  return entries;
}

} // namespace

const plan::Choice* Table::find(Collective collective, std::size_t bytes) const {
  const auto row = rows_.find(collective);
  if (row == rows_.end()) return nullptr;
  for (const Entry& entry : row->second)
    if (bytes <= entry.up_to) return &entry.choice;
  return nullptr;
}

void Table::set(Collective collective, const std::vector<Entry>& entries) {
  std::vector<Entry>& row = rows_[collective];
  row.clear();
  for (const Entry& entry : entries) {
    if (!row.empty() && row.back().choice == entry.choice) row.pop_back();
    row.push_back(entry);
  }
  if (row.empty()) rows_.erase(collective);
  else row.back().up_to = kRest;
}

std::string Table::text() const {
  std::string text;
  for (const auto& [collective, row] : rows_) {
    text += std::string(name(collective)) + ":";
    for (const Entry& entry : row) {
      text += (&entry == row.data() ? " " : ", ") + entry.choice.text();
      if (entry.up_to != kRest) text += " to " + std::to_string(entry.up_to);
    }
    text += "\n";
  }
  return text;
}

Table Table::parse(std::string_view text, const std::string& what) {
  Table table;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view entries = cutWord(text, "\n");
    try {
      const Collective collective = parseCollective(std::string(cutWord(entries, ": ")));
      if (table.rows_.contains(collective))
        throw Error(ErrorCode::data, std::string(name(collective)) + " occurs twice");
      table.set(collective, parseEntries(entries));
    } catch (const Error& error) {
      throw Error(ErrorCode::data, what + ":" + std::to_string(line) + ": " + error.what());
    }
  }
  return table;
}

} // namespace rondo::planner
