// Parses, prints and divides layouts.
#include "plan/layout.h"

#include <algorithm>
#include <charconv>

#include "rondo/error.h"

namespace rondo::plan {
namespace {

constexpr int kMostRanks = 1 << 20; ///< in the text form

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              "layout '" + std::string(text) + "' " + why +
                  "; valid: 4x2 (4 nodes of 2 ranks), 2x2x4 (nodes of sockets), 3,1,4 (uneven "
                  "nodes), 0.1.0.1 (the node of each rank)");
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const auto at = text.find(separator);
    words.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

std::vector<int> numbersIn(std::string_view whole, std::string_view part, char separator,
                           int least) {
  std::vector<int> numbers;
  for (const std::string_view word : split(part, separator)) {
    int number = 0;
    const char* end = word.data() + word.size();
    const auto [stop, failure] = std::from_chars(word.data(), end, number);
    if (failure != std::errc{} || stop != end || number < least || number > kMostRanks)
      refuse(whole, "has '" + std::string(word) + "' where a number from " + std::to_string(least) +
                        " to " + std::to_string(kMostRanks) + " should be");
    numbers.push_back(number);
  }
  return numbers;
}

/// Parses "2x2x4": nodes, sockets; the last factor is the number of ranks per socket.
Layout fromFactors(std::string_view text) {
  const std::vector<int> factors = numbersIn(text, text, 'x', 1);
  long long ranks = 1;
  for (const int factor : factors)
    if ((ranks *= factor) > kMostRanks)
      refuse(text, "has more than " + std::to_string(kMostRanks) + " ranks");
  Layout layout;
  long long size = ranks;
  for (std::size_t level = 0; level + 1 < factors.size(); ++level) {
    size /= factors[level];
    auto& groups = layout.groups.emplace_back();
    for (long long rank = 0; rank < ranks; ++rank) groups.push_back(static_cast<int>(rank / size));
  }
  return layout;
}

Layout fromSizes(std::string_view text) {
  Layout layout;
  auto& groups = layout.groups.emplace_back();
  int node = 0;
  for (const int size : numbersIn(text, text, ',', 1)) {
    groups.insert(groups.end(), static_cast<std::size_t>(size), node++);
    if (groups.size() > kMostRanks)
      refuse(text, "has more than " + std::to_string(kMostRanks) + " ranks");
  }
  return layout;
}

Layout fromRanks(std::string_view text) {
  Layout layout;
  for (const std::string_view level : split(text, '/')) {
    layout.groups.push_back(numbered(numbersIn(text, level, '.', 0)));
    const auto& now = layout.groups.back();
    if (now.size() != layout.groups.front().size())
      refuse(text, "has levels of different numbers of ranks");
    if (layout.groups.size() == 1) continue;
    const auto& above = layout.groups[layout.groups.size() - 2];
    for (std::size_t r = 0; r < now.size(); ++r)
      for (std::size_t q = 0; q < r; ++q)
        if (now[r] == now[q] && above[r] != above[q])
          refuse(text, "has a group that belongs to two groups of the level above");
  }
  return layout;
}

template <typename Numbers>
std::string joined(const Numbers& numbers, char separator) {
  std::string text;
  for (const auto number : numbers)
    text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(number);
  return text;
}

/// "4x2" or "3,1,4": the compact text of this layout, if it has one.
std::string compact(const Layout& layout) {
  std::vector<std::size_t> sizes;
  for (const auto& node : layout.nodes()) sizes.push_back(node.size());
  std::string form = joined(sizes, ',');
  if (std::count(sizes.begin(), sizes.end(), sizes[0]) != std::ssize(sizes)) return form;
  std::size_t before = 1;
  std::string factors;
  for (const auto& groups : layout.groups) {
    const auto count =
        static_cast<std::size_t>(*std::max_element(groups.begin(), groups.end())) + 1;
    if (count % before != 0) return form;
    factors += std::to_string(count / before) + "x";
    before = count;
  }
  if (layout.groups.front().size() % before != 0) return form;
  return factors + std::to_string(layout.groups.front().size() / before);
}

} // namespace

std::vector<std::vector<int>> Layout::nodes() const {
  std::vector<std::vector<int>> nodes(1);
  if (groups.empty()) return nodes;
  for (std::size_t r = 0; r < groups[0].size(); ++r) {
    const auto node = static_cast<std::size_t>(groups[0][r]);
    if (node >= nodes.size()) nodes.resize(node + 1);
    nodes[node].push_back(static_cast<int>(r));
  }
  return nodes;
}

bool Layout::clustered() const {
  if (groups.empty() || groups[0].empty()) return false;
  const int most = *std::max_element(groups[0].begin(), groups[0].end());
  return most > 0 && static_cast<std::size_t>(most) + 1 < groups[0].size();
}

Layout Layout::within(const std::vector<int>& ranks) const {
  Layout inside;
  for (std::size_t level = 1; level < groups.size(); ++level) {
    std::vector<int> names;
    for (const int rank : ranks) names.push_back(groups[level][static_cast<std::size_t>(rank)]);
    inside.groups.push_back(numbered(names));
  }
  return inside;
}

Layout parseLayout(std::string_view text, int ranks) {
  if (text.empty()) return {};
  const auto has = [&](char c) { return text.find(c) != std::string_view::npos; };
  const Layout layout = has('.') ? fromRanks(text) : has('x') ? fromFactors(text) : fromSizes(text);
  const int made = static_cast<int>(layout.groups.front().size());
  if (ranks > 0 && made != ranks)
    refuse(text, "has " + std::to_string(made) + " ranks, not " + std::to_string(ranks));
  return layout;
}

std::string text(const Layout& layout) {
  if (layout.groups.empty()) return "";
  const std::string form = compact(layout);
  if (parseLayout(form) == layout) return form;
  std::string all;
  for (const auto& groups : layout.groups) all += (all.empty() ? "" : "/") + joined(groups, '.');
  return all;
}

} // namespace rondo::plan
