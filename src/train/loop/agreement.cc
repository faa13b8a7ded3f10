// Compares statements of all ranks by all-gather, so that all ranks come to the same result.
#include "train/loop/agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <new>
#include <span>
#include <sstream>
#include <vector>

#include "rondo/detail/hash.h"

namespace rondo::training {

namespace {

/// The message of one rank to the others: its settings, or its error.
struct Statement {
  static constexpr std::int32_t kReady = -1;

  std::uint64_t hash = 0;     ///< of the whole text
  std::int32_t code = kReady; ///< else an ErrorCode
  std::array<char, 4084> text{};

  void say(const std::string& what) {
    hash = detail::fnv1a(std::as_bytes(std::span(what)));
    what.copy(text.data(), text.size() - 1); // the last byte stays zero; longer texts are cut
  }
  std::string said() const { return text.data(); }
};

Statement state(const std::function<std::string()>& prepare) {
  Statement statement;
  try {
    statement.say(prepare());
  } catch (const Error& error) {
    statement.code = static_cast<std::int32_t>(error.code());
    statement.say(error.what());
  } catch (const std::bad_alloc&) {
    statement.code = static_cast<std::int32_t>(ErrorCode::system);
    statement.say("out of memory");
  }
  return statement;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// "rank 1", "ranks 0, 2, 3"
std::string rankList(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string nameOf(const std::string& line) { return line.substr(0, line.find(' ')); }
bool names(const std::vector<std::string>& lines, const std::string& name) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return nameOf(line) == name; });
}

} // namespace

std::pair<std::string, std::string> firstDifference(const std::string& a, const std::string& b) {
  std::vector<std::string> left = lines(a), right = lines(b);
  const std::size_t count = std::max(left.size(), right.size());
  left.resize(count);
  right.resize(count);
  const auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin());
  if (l == left.end() || nameOf(*l) == nameOf(*r)) return {*l, *r};
  if (!names(right, nameOf(*l))) return {*l, "the default " + nameOf(*l)};
  if (!names(left, nameOf(*r))) return {"the default " + nameOf(*r), *r};
  return {*l, *r};
}

void agree(Communicator& comm, const std::function<std::string()>& prepare) {
  const Statement own = state(prepare);
  std::vector<Statement> all(static_cast<std::size_t>(comm.size()));
  comm.allGather(&own, all.data(), sizeof own, DataType::uint8);

  const auto failed = std::find_if(all.begin(), all.end(), [](const Statement& statement) {
    return statement.code != Statement::kReady;
  });
  if (failed != all.end()) {
    const auto code = static_cast<ErrorCode>(failed->code);
    const bool same = std::all_of(all.begin(), all.end(), [&](const Statement& statement) {
      return statement.code == failed->code && statement.text == failed->text;
    });
    if (same) throw Error(code, failed->said());
    const int rank = static_cast<int>(failed - all.begin());
    throw Error(code, "rank " + std::to_string(rank) + ": " + failed->said(), rank);
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].hash == all[0].hash) continue;
    if (all[rank].text == all[0].text)
      throw Error(ErrorCode::mismatch,
                  "ranks train differently: rank 0 and rank " + std::to_string(rank) +
                      " have different settings after the first " +
                      std::to_string(all[0].said().size()) +
                      " bytes: compare their options and data",
                  static_cast<int>(rank));
    const auto [first, other] = firstDifference(all[0].said(), all[rank].said());
    throw Error(ErrorCode::mismatch,
                "ranks train differently: rank 0 has " + first + ", rank " + std::to_string(rank) +
                    " has " + other,
                static_cast<int>(rank));
  }
}

void compareHashes(Communicator& comm, std::uint64_t hash, const std::string& when) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
  comm.allGather(&hash, all.data(), 1, DataType::uint64);
  if (std::all_of(all.begin(), all.end(), [&](std::uint64_t other) { return other == hash; }))
    return;
  std::map<std::uint64_t, std::vector<int>> holders;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    holders[all[rank]].push_back(static_cast<int>(rank));
  std::string text = when + ": the parameters' hashes differ";
  int culprit = -1;
  for (const auto& [value, ranks] : holders) {
    text += (value == holders.begin()->first ? ": " : "; ") + rankList(ranks) + " " + hex(value);
    if (holders.size() == 2 && ranks.size() == 1 && comm.size() > 2) culprit = ranks.front();
  }
  throw Error(ErrorCode::mismatch, text, culprit);
}

} // namespace rondo::training
