// Compares the ranks' calls, and follows who waits for whom.
//
// A rank is a culprit only if others wait for it and it waits for no rank itself. A wait counts
// from one second on, because the dumps of different ranks are not made at the same instant; after
// a failure of the communicator every wait counts.
#include "tools/report_judge.h"

#include <algorithm>
#include <functional>
#include <set>

namespace rondo::tools {

namespace {

constexpr std::int64_t kPatience = 1'000'000'000;

using Ranks = std::map<int, RecordedRank>;

class Judge {
 public:
  Judge(const Dumps& dumps, const std::string& communicator)
      : dumps_(dumps),
        communicator_(communicator),
        ranks_(dumps.communicators.at(communicator)),
        size_(ranks_.begin()->second.size) {
    for (const auto& [number, rank] : ranks_) {
      if (rank.failure && !failure_) failure_ = &*rank.failure;
    }
    for (const auto& [number, rank] : ranks_) {
      const RecordedCall* call = inFlight(rank);
      if (!call) continue;
      if (failure_ || rank.time - call->created >= kPatience) waiting_[number] = call;
    }
  }

  std::vector<Finding> run() {
    findDifference();
    if (found_.empty()) {
      for (const auto& [rank, call] : waiting_)
        call->p2p ? followMessage(rank, *call) : followCollective(rank, *call);
      nameLate();
      nameStopped();
      nameMissing();
    }
    if (failure_) addFailure();
    if (found_.empty() && !waiting_.empty()) nameStuck();
    return std::move(found_);
  }

 private:
  const RecordedRank* of(int rank) const {
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? nullptr : &found->second;
  }
  bool hasCulprit() const {
    return std::any_of(found_.begin(), found_.end(),
                       [](const Finding& one) { return one.culprit >= 0; });
  }

  /// The first collective in which two ranks differ.
  void findDifference() {
    std::map<std::uint64_t, std::map<int, const RecordedCall*>> calls;
    for (const auto& [number, rank] : ranks_)
      for (const RecordedCall& call : rank.calls)
        if (!call.p2p) calls[call.sequence][number] = &call;
    for (const auto& [sequence, by_rank] : calls) {
      const RecordedCall* const right = majority(by_rank);
      for (const auto& [rank, call] : by_rank) {
        const std::string difference = call->difference(*right);
        if (difference.empty()) continue;
        std::vector<int> others;
        for (const auto& [other, theirs] : by_rank)
          if (theirs->difference(*right).empty()) others.push_back(other);
        found_.push_back({"differs", rank,
                          "rank " + std::to_string(rank) + " calls " + call->text() + " where " +
                              ranksText(others) + (others.size() == 1 ? " calls " : " call ") +
                              right->text() + ": " + difference});
      }
      if (!found_.empty()) return;
    }
  }

  /// The call that most ranks make; of equally many the one of the lowest rank.
  static const RecordedCall* majority(const std::map<int, const RecordedCall*>& by_rank) {
    const RecordedCall* best = nullptr;
    std::ptrdiff_t most = 0;
    for (const auto& one : by_rank) {
      const RecordedCall* const call = one.second;
      // Nearly always all agree; then this is the only round.
      const auto same = std::count_if(by_rank.begin(), by_rank.end(), [&](const auto& other) {
        return call->difference(*other.second).empty();
      });
      if (same > most) best = call, most = same;
      if (2 * most >= static_cast<std::ptrdiff_t>(by_rank.size())) break;
    }
    return best;
  }

  void followCollective(int waiter, const RecordedCall& call) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == waiter) continue;
      const RecordedRank* const other = of(rank);
      if (!other) absent_[rank].push_back(waiter);
      else if (other->entered < call.sequence) late_[{call.sequence, rank}].push_back(waiter);
      else if (other->stopped) stopped_[rank].push_back(waiter);
    }
  }

  void followMessage(int waiter, const RecordedCall& call) {
    const int peer = call.peer.value_or(-1);
    if (peer < 0 || peer >= size_ || peer == waiter) return;
    const RecordedRank* const other = of(peer);
    if (!other) return absent_[peer].push_back(waiter);
    if (other->stopped) return stopped_[peer].push_back(waiter);
    const std::string wanted = call.name == "Send" ? "Recv" : "Send";
    std::uint64_t made = 0;
    for (const RecordedCall& theirs : other->calls)
      if (theirs.p2p && theirs.name == wanted && theirs.peer == waiter)
        made = std::max(made, theirs.sequence);
    if (made >= call.sequence || blocked(peer, *other)) return;
    if (early(*other, call)) return tooEarly(peer);
    found_.push_back({wanted == "Send" ? "never_sent" : "never_received", peer,
                      "rank " + std::to_string(peer) + " never called the " + wanted + " for " +
                          call.text() + " of rank " + std::to_string(waiter) + left(*other)});
  }

  /// Whether the rank waits in an earlier call, or in a call of another communicator.
  bool blocked(int rank, const RecordedRank& of) {
    if (waiting_.contains(rank)) return true;
    for (const auto& [id, others] : dumps_.communicators) {
      if (id == communicator_) continue;
      std::vector<const RecordedRank*> here;
      for (const auto& [number, other] : others)
        if (other.process == of.process) here.push_back(&other);
      if (here.size() != 1) continue; // ranks that are threads: which one is it?
      const RecordedCall* const call = inFlight(*here[0]);
      if (!call || here[0]->time - call->created < kPatience) continue;
      elsewhere_.insert({rank, "rank " + std::to_string(rank) + " is in " + call->text() +
                                   " of communicator " + id + ", as rank " +
                                   std::to_string(here[0]->rank) + " of it"});
      return true;
    }
    return false;
  }

  bool early(const RecordedRank& other, const RecordedCall& call) const {
    return !failure_ && other.open && other.time - call.created < kPatience;
  }
  void tooEarly(int rank) {
    found_.push_back({"too_early", -1,
                      "rank " + std::to_string(rank) +
                          "'s dump is older than the call that others wait in: dump again"});
  }
  static std::string left(const RecordedRank& rank) {
    return rank.open ? "" : "; it has closed the communicator";
  }

  /// Ranks that did not enter a call in which others wait: each once, with the first such call.
  void nameLate() {
    std::set<int> named;
    for (const auto& [key, waiters] : late_) {
      const auto [sequence, rank] = key;
      const RecordedRank& other = *of(rank);
      if (!named.insert(rank).second || (other.open && !other.stopped && blocked(rank, other)))
        continue;
      const RecordedCall& call = *waiting_.at(waiters.front());
      if (early(other, call)) {
        tooEarly(rank);
        continue;
      }
      const char* const kind = !other.open ? "left" : other.stopped ? "stopped" : "never_entered";
      found_.push_back(
          {kind, rank,
           "rank " + std::to_string(rank) + (other.open ? "" : " has closed the communicator and") +
               (other.open && other.stopped ? " is stopped (SIGSTOP, or a debugger) and" : "") +
               " never entered " + call.text() + ", where " + ranksText(waiters) +
               (waiters.size() == 1 ? " waits" : " wait")});
    }
  }

  void nameStopped() {
    for (const auto& [rank, waiters] : stopped_)
      found_.push_back({"stopped", rank,
                        "rank " + std::to_string(rank) +
                            " is stopped (SIGSTOP, or a debugger) in a call, where " +
                            ranksText(waiters) + (waiters.size() == 1 ? " waits" : " wait")});
  }

  /// Ranks without a dump are the cause only if no rank with one is.
  void nameMissing() {
    if (hasCulprit() || (failure_ && failure_->culprit >= 0)) return;
    for (const auto& [rank, waiters] : absent_)
      found_.push_back({"missing", rank,
                        "rank " + std::to_string(rank) +
                            " has no dump here (it has died, or its "
                            "dump was not made), and " +
                            ranksText(waiters) + (waiters.size() == 1 ? " waits" : " wait")});
  }

  /// What the ranks found out themselves.
  void addFailure() {
    const int culprit = failure_->culprit < size_ ? failure_->culprit : -1;
    found_.push_back({"failure", hasCulprit() ? -1 : culprit,
                      "the communicator failed: " + failure_->code + ": " + failure_->text});
  }

  /// All ranks wait, and none is late: says for whom.
  void nameStuck() {
    for (const auto& [rank, text] : elsewhere_) found_.push_back({"elsewhere", -1, text});
    std::string text;
    for (const auto& [rank, call] : waiting_) {
      for (const RecordedWait& wait : of(rank)->waits)
        if (wait.number == call->number && wait.peer >= 0 && text.size() < 400)
          text += (text.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) +
                  " waits for rank " + std::to_string(wait.peer);
    }
    found_.push_back({"stuck", -1,
                      "no rank that they wait for is late: " +
                          (text.empty() ? std::to_string(waiting_.size()) + " ranks wait" : text)});
  }

  const Dumps& dumps_;
  const std::string communicator_;
  const Ranks& ranks_;
  const int size_;
  const RecordedFailure* failure_ = nullptr;
  std::map<int, const RecordedCall*> waiting_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> late_; ///< by call and rank
  std::map<int, std::vector<int>> absent_, stopped_;               ///< who waits for them
  std::set<std::pair<int, std::string>> elsewhere_;
  std::vector<Finding> found_;
};

} // namespace

const RecordedCall* inFlight(const RecordedRank& rank) {
  if (!rank.open) return nullptr;
  const auto first = [&](const auto& wanted) -> const RecordedCall* {
    const auto found = std::find_if(rank.calls.begin(), rank.calls.end(), wanted);
    return found == rank.calls.end() ? nullptr : &*found;
  };
  const auto waits = [&](const RecordedCall& call) {
    return std::any_of(rank.waits.begin(), rank.waits.end(),
                       [&](const RecordedWait& wait) { return wait.number == call.number; });
  };
  if (const RecordedCall* call =
          first([](const RecordedCall& one) { return !one.completed && !one.p2p; }))
    return call;
  return first([&](const RecordedCall& one) { return !one.completed && waits(one); });
}

std::string ranksText(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::vector<Finding> judge(const Dumps& dumps, const std::string& communicator) {
  return Judge(dumps, communicator).run();
}

} // namespace rondo::tools
