// Decides about mismatched calls, ranks that left, and ranks that never joined.
#include "bootstrap/ledger.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/futex.h"
#include "rondo/communicator.h"
#include "rondo/detail/hash.h"

namespace rondo::bootstrap {

Progress Progress::of(const ProgressBoard& board) {
  return {board.calls.entered(), board.completed.load(std::memory_order_relaxed)};
}

bool Round::contribute(int rank, bool is_split, std::vector<std::byte> blob) {
  const auto at = static_cast<std::size_t>(rank);
  if (came[at]) return false;
  came[at] = true;
  split = is_split;
  blobs[at] = std::move(blob);
  ++count;
  return true;
}

std::vector<int> Round::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < came.size(); ++r)
    if (!came[r]) ranks.push_back(static_cast<int>(r));
  return ranks;
}

std::string rankList(const std::vector<int>& ranks) {
  constexpr std::size_t kListed = 16;
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t listed = std::min(ranks.size(), kListed);
  for (std::size_t i = 0; i < listed; ++i) {
    const bool last = i + 1 == ranks.size();
    if (i > 0) text += last ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (listed < ranks.size()) text += " and " + std::to_string(ranks.size() - listed) + " more";
  return text;
}

namespace {

/// "AllReduce #412" of "AllReduce #412 (float sum, 100 elements): lane 0 step 3".
std::string callOf(const Stall& stall) {
  std::string call = stall.text.substr(0, stall.text.find_first_of("(:"));
  while (!call.empty() && call.back() == ' ') call.pop_back();
  if (call.empty()) call = "collective #" + std::to_string(stall.sequence);
  return call;
}

std::optional<Failure> mismatch(const std::optional<CallDifference>& difference) {
  if (!difference) return std::nullopt;
  return Failure{ErrorCode::mismatch, difference->text(nullptr), difference->odd, difference};
}

} // namespace

Ledger::Ledger(int size) : members_(static_cast<std::size_t>(size)) {}

bool Ledger::fail(const Failure& failure) {
  if (failure_) return false;
  failure_ = failure;
  failure_->text = bounded(std::move(failure_->text));
  if (failure_->culprit >= size()) failure_->culprit = -1;
  rounds_.clear();
  return true;
}

const std::shared_ptr<Round>& Ledger::round(std::uint64_t index) {
  auto& round = rounds_[index];
  if (!round) round = std::make_shared<Round>(size());
  return round;
}

std::vector<std::uint64_t> Ledger::completeRounds() const {
  std::vector<std::uint64_t> all;
  for (const auto& [index, round] : rounds_)
    if (round->complete()) all.push_back(index);
  return all;
}

std::optional<Failure> Ledger::contributing(int rank, const Round& round, bool is_split) const {
  if (round.count > 0 && round.split != is_split)
    return Failure{ErrorCode::mismatch,
                   "ranks called different things: rank " + std::to_string(rank) +
                       (is_split ? " splits while others exchange data"
                                 : " exchanges data while others split"),
                   rank};
  for (const int other : left_)
    if (!round.came[static_cast<std::size_t>(other)])
      return Failure{ErrorCode::peer_dead,
                     "rank " + std::to_string(other) + " left while others waited for it", other};
  return std::nullopt;
}

void Ledger::setProgress(int rank, const Progress& progress) {
  members_.at(static_cast<std::size_t>(rank)).progress = progress;
}

std::map<int, Progress> Ledger::departed() const {
  std::map<int, Progress> all;
  for (const int rank : left_)
    if (const auto& progress = members_[static_cast<std::size_t>(rank)].progress)
      all.emplace(rank, *progress);
  return all;
}

std::optional<Failure> Ledger::compare(int rank, const CallReport& calls) {
  return mismatch(comparison_.add(rank, calls));
}

void Ledger::setCalls(int rank, CallReport calls) {
  members_.at(static_cast<std::size_t>(rank)).calls = std::move(calls);
}

std::optional<Failure> Ledger::different() const {
  std::vector<const CallReport*> reports;
  for (const Member& member : members_) reports.push_back(member.calls ? &*member.calls : nullptr);
  return mismatch(firstDifference(reports));
}

std::optional<Failure> Ledger::stalled(int rank, const Stall& stall) {
  auto& own = members_.at(static_cast<std::size_t>(rank));
  own.stall = stall;
  const bool heard = std::exchange(own.heard_of_left, false);
  if (stall.waiting_for < 0 || stall.waiting_for >= size()) return std::nullopt;
  if (stall.sequence > 0) return leftBehind(rank, stall.waiting_for);
  // A message that the peer sent before it left may arrive shortly after the news that it left.
  own.heard_of_left = hasLeft(stall.waiting_for);
  if (!heard || !own.heard_of_left || !stall.again) return std::nullopt;
  return Failure{ErrorCode::peer_dead,
                 "rank " + std::to_string(stall.waiting_for) + " left while rank " +
                     std::to_string(rank) + " waits for it in " + callOf(stall),
                 stall.waiting_for};
}

std::optional<Failure> Ledger::leave(int rank) {
  left_.insert(rank);
  for (int other = 0; other < size(); ++other) {
    const Member& member = members_[static_cast<std::size_t>(other)];
    if (other == rank || !member.stall || member.stall->waiting_for != rank || hasLeft(other))
      continue;
    if (auto verdict = leftBehind(other, rank)) return verdict;
  }
  for (const auto& [index, round] : rounds_) {
    if (round->came[static_cast<std::size_t>(rank)]) continue;
    return Failure{ErrorCode::peer_dead,
                   "rank " + std::to_string(rank) + " left while others waited for it", rank};
  }
  return std::nullopt;
}

std::optional<Failure> Ledger::leftBehind(int waiting, int gone) const {
  const Member& other = members_[static_cast<std::size_t>(gone)];
  const Stall& stall = *members_[static_cast<std::size_t>(waiting)].stall;
  // A rank that left before the hub moved here may have entered any call, if the old hub has not
  // said which.
  if (!hasLeft(gone) || !other.progress) return std::nullopt;
  if (stall.sequence == 0 || other.progress->entered >= stall.sequence) return std::nullopt;
  return Failure{ErrorCode::peer_dead,
                 "rank " + std::to_string(gone) + " left without entering " + callOf(stall), gone};
}

bool Ledger::anyBehind(std::uint64_t sequence) const {
  for (int rank = 0; rank < size(); ++rank)
    if (!hasLeft(rank) &&
        members_[static_cast<std::size_t>(rank)].progress.value_or(Progress{}).entered < sequence)
      return true;
  return false;
}

Failure Ledger::brokenLink(int accuser, const Failure& failure) {
  const auto [low, high] = std::minmax(accuser, failure.culprit);
  return {ErrorCode::transport,
          "the connection between rank " + std::to_string(low) + " and rank " +
              std::to_string(high) + " broke, though both are alive; rank " +
              std::to_string(accuser) + " reports: " + failure.text,
          failure.culprit};
}

Failure Ledger::unheardHost(const std::string& host, int culprit, int deaf,
                            std::chrono::milliseconds limit) {
  return {ErrorCode::unresponsive,
          host + ", which hosts the control plane, does not respond: rank " + std::to_string(deaf) +
              " heard no heartbeat for " + std::to_string(limit.count()) + " ms",
          culprit};
}

Failure Ledger::completeTimeout(Failure failure, int reporter,
                                const std::optional<Stall>& stall) const {
  if (!stall || stall->sequence == 0) return failure;
  std::vector<int> late, behind, unknown;
  for (int rank = 0; rank < size(); ++rank) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    const Progress progress = member.progress.value_or(Progress{});
    if (rank == reporter) continue;
    if (hasLeft(rank) && !member.progress) unknown.push_back(rank);
    else if (progress.entered < stall->sequence) late.push_back(rank);
    else if (progress.completed < stall->sequence) behind.push_back(rank);
  }
  std::string who;
  if (!late.empty()) {
    who = rankList(late) + " did not call it";
    failure.culprit = late.front();
  } else if (!unknown.empty()) {
    who = rankList(unknown) + " left, and may not have called it";
  } else {
    who = "all ranks called it, " + (behind.empty()
                                         ? "and the others completed it"
                                         : rankList(behind) + " did not complete it either");
  }
  const std::size_t details = std::min(failure.text.find(';'), failure.text.size());
  failure.text.insert(details, ": " + who);
  return failure;
}

Failure Ledger::completeRound(Failure failure, std::uint64_t index) const {
  const auto found = rounds_.find(index);
  if (found == rounds_.end()) return failure;
  const std::vector<int> missing = found->second->missing();
  if (missing.empty()) return failure;
  failure.text += ": " + rankList(missing) + " of " + std::to_string(size()) + " did not come";
  failure.culprit = missing.front();
  return failure;
}

std::map<int, std::vector<int>> splitGroups(const std::vector<std::pair<int, int>>& color_key) {
  std::map<int, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < color_key.size(); ++rank)
    if (color_key[rank].first != Communicator::kNoColor)
      groups[color_key[rank].first].push_back(static_cast<int>(rank));
  for (auto& [color, ranks] : groups)
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return color_key[static_cast<std::size_t>(a)].second <
             color_key[static_cast<std::size_t>(b)].second;
    });
  return groups;
}

std::vector<std::byte> encodeSplit(int color, int key) {
  base::Writer writer;
  writer.i32(color);
  writer.i32(key);
  return writer.take();
}

std::pair<int, int> decodeSplit(const std::vector<std::byte>& blob) {
  base::Reader reader(blob, "a rank's color and key");
  const int color = reader.i32();
  const int key = reader.i32();
  reader.finish();
  return {color, key};
}

std::uint64_t childId(std::uint64_t parent, std::uint64_t index, int color) {
  using detail::mix; // mixed three times, so ids collide as rarely as random words
  const std::uint64_t id = mix(mix(parent ^ mix(index)) ^ static_cast<std::uint32_t>(color));
  return id == 0 ? 1 : id;
}

std::uint64_t shrunkId(std::uint64_t parent, std::uint64_t index, const std::vector<bool>& stay) {
  constexpr int kShrunk = -2; // no color has this value; worlds use -1
  std::uint64_t id = childId(parent, index, kShrunk);
  for (std::size_t rank = 0; rank < stay.size(); ++rank)
    if (!stay[rank]) id = childId(id, rank, kShrunk);
  return id;
}

std::uint64_t agreedId(std::uint64_t parent, std::uint64_t generation, std::uint64_t number) {
  constexpr int kAgreed = -3; // see shrunkId()
  return childId(childId(parent, generation, kAgreed), number, kAgreed);
}

void raise(std::atomic<std::uint32_t>& word) {
  word.store(1, std::memory_order_release);
  // The two kinds of waiters have different futex keys.
  base::futexWake(word);
  base::futexWake(word, std::numeric_limits<int>::max(), base::FutexScope::shared);
  word.notify_all();
}

std::string hostName(int culprit, int host) {
  if (culprit >= 0) return "rank " + std::to_string(culprit);
  return host >= 0 ? "rank " + std::to_string(host) + " of the job" : "its process";
}

std::string bounded(std::string text) {
  if (text.size() > kTextBytes) text.resize(kTextBytes);
  return text;
}

} // namespace rondo::bootstrap
