// Compares the ranks' calls, and follows who waits for whom.
//
// A rank is a culprit only if others wait for it and it waits for no rank itself. (If some ranks
// have no dump, a rank that is stopped in a call and waits for no rank is a culprit, too.) A call
// waits once nothing has moved in it for a second (the watch: longer): a slow call is no fault, and
// the dumps of different ranks are not made at the same instant. A rank that ended a call less than
// a second ago is not late yet, unless others have waited for three seconds: it may have been late
// in that call, and now compute again. After a failure of the communicator every call waits; if the
// ranks know who ended it, no other rank is blamed.
#include "tools/report_judge.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "rondo/error.h"
#include "tools/report_link.h"
#include "tools/report_straggler.h"

namespace rondo::tools {

namespace {

using Ranks = RecordedRanks;

/// A call that waits for so many times the patience waits for long.
constexpr std::int64_t kWaitsLong = 3;

class Judge {
 public:
  Judge(const Dumps& dumps, const std::string& communicator, const JudgeRules& rules)
      : dumps_(dumps),
        communicator_(communicator),
        rules_(rules),
        ranks_(dumps.communicators.at(communicator)),
        size_(ranks_.begin()->second.size) {
    for (const auto& [number, rank] : ranks_) {
      if (rank.failure && !failure_) failure_ = &*rank.failure;
    }
    for (const auto& [number, rank] : ranks_) {
      const RecordedCall* call = inFlight(rank);
      if (!call || rank.ended) continue;
      if (failure_ || stands(rank, *call)) waiting_[number] = call;
    }
  }

  std::vector<Finding> run() {
    findDifference();
    if (found_.empty() && !failure_) nameDead();
    if (found_.empty() && !failureTells()) {
      for (const auto& [rank, call] : waiting_)
        call->p2p ? followMessage(rank, *call) : followCollective(rank, *call);
      nameLate();
      nameStopped();
      nameMissing();
      if (!failure_) nameSlowLinks();
    }
    const bool unknown = found_.empty();
    if (failure_) addFailure();
    if (unknown && !hasCulprit() && !waiting_.empty() && !computes_ && !failureTells()) nameStuck();
    if (found_.empty())
      if (auto straggler = findStraggler(ranks_, size_)) found_.push_back(std::move(*straggler));
    return std::move(found_);
  }

 private:
  bool stands(const RecordedRank& rank, const RecordedCall& call) const {
    return std::any_of(rank.waits.begin(), rank.waits.end(), [&](const RecordedWait& wait) {
      return wait.number == call.number && wait.idle >= rules_.patience;
    });
  }
  const RecordedRank* of(int rank) const {
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? nullptr : &found->second;
  }
  bool hasCulprit() const {
    return std::any_of(found_.begin(), found_.end(),
                       [](const Finding& one) { return one.culprit >= 0; });
  }
  bool named(int rank) const {
    return std::any_of(found_.begin(), found_.end(),
                       [&](const Finding& one) { return one.culprit == rank; });
  }

  /// Whether the ranks know which one ended the communicator: all others only heard of it. (Who is
  /// late or different is found out here.)
  bool certain() const {
    return failure_ && failure_->culprit >= 0 && failure_->code != "timeout" &&
           failure_->code != "mismatch";
  }
  bool innocent(int rank) const { return certain() && rank != failure_->culprit; }
  /// Whether the failure tells the cause, so that no rank is late. Either a call differs from the
  /// others, and dumps may be older than it. Or a rank died that had not closed the communicator;
  /// then the call that it did not enter is no cause, and its dump may be older than its death.
  bool failureTells() const {
    if (failure_ && failure_->code == name(ErrorCode::mismatch)) return true;
    if (!certain() || failure_->code != name(ErrorCode::peer_dead)) return false;
    const RecordedRank* const dead = of(failure_->culprit);
    return !dead || dead->open;
  }

  /// Ranks that make the same call.
  struct Party {
    const RecordedCall* call;
    std::vector<int> ranks;
  };

  /// The first collective in which two ranks differ. If no call has the most ranks, neither is
  /// called wrong.
  void findDifference() {
    std::map<std::uint64_t, std::vector<Party>> calls;
    for (const auto& [number, rank] : ranks_)
      for (const RecordedCall& call : rank.calls)
        if (!call.p2p) join(calls[call.sequence], number, call);
    for (auto& [sequence, parties] : calls) {
      if (parties.size() == 1) continue;
      std::stable_sort(parties.begin(), parties.end(), [](const Party& a, const Party& b) {
        return a.ranks.size() > b.ranks.size();
      });
      const bool tie = parties[0].ranks.size() == parties[1].ranks.size();
      for (std::size_t i = 1; i < parties.size(); ++i) {
        if (tie) addDifference(-1, parties[i].ranks, parties[i], parties[0]);
        else
          for (const int rank : parties[i].ranks)
            addDifference(rank, {rank}, parties[i], parties[0]);
      }
      return;
    }
  }

  static void join(std::vector<Party>& parties, int rank, const RecordedCall& call) {
    for (Party& party : parties)
      if (call.difference(*party.call).empty()) return party.ranks.push_back(rank);
    parties.push_back({&call, {rank}});
  }

  void addDifference(int culprit, const std::vector<int>& ranks, const Party& odd,
                     const Party& right) {
    const auto calls = [](const std::vector<int>& who, const Party& party) {
      return ranksText(who) + (who.size() == 1 ? " calls " : " call ") + party.call->text();
    };
    found_.push_back({"differs", culprit,
                      calls(ranks, odd) + " where " + calls(right.ranks, right) + ": " +
                          odd.call->difference(*right.call)});
  }

  /// Ranks whose process has ended before they closed the communicator. If all have, the job was
  /// ended.
  void nameDead() {
    const auto lives = [](const auto& one) { return one.second.open && !one.second.ended; };
    if (std::none_of(ranks_.begin(), ranks_.end(), lives)) return;
    for (const auto& [number, rank] : ranks_)
      if (rank.open && rank.ended)
        found_.push_back({"died", number,
                          "rank " + std::to_string(number) + " died: its process, " + rank.process +
                              ", has ended" + lastCall(rank)});
  }

  static std::string lastCall(const RecordedRank& rank) {
    if (const RecordedCall* const call = inFlight(rank)) return " in " + call->text();
    return rank.calls.empty() ? "" : " after " + rank.calls.back().text();
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
    if (peer < 0 || peer >= size_ || peer == waiter || innocent(peer)) return;
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
    if (computes(*other, {waiter})) return;
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
        if (other.sameProcess(of)) here.push_back(&other);
      if (here.size() != 1) continue; // ranks that are threads: which one is it?
      const RecordedCall* const call = inFlight(*here[0]);
      if (!call || !stands(*here[0], *call)) continue;
      elsewhere_.insert({rank, "rank " + std::to_string(rank) + " is in " + call->text() +
                                   " of communicator " + id + ", as rank " +
                                   std::to_string(here[0]->rank) + " of it"});
      return true;
    }
    return false;
  }

  bool early(const RecordedRank& other, const RecordedCall& call) const {
    return !failure_ && other.open && other.time - call.created < rules_.patience;
  }
  /// Whether the rank ended a call lately, and the others do not wait for long.
  bool computes(const RecordedRank& other, const std::vector<int>& waiters) {
    const auto lately = [&](const RecordedCall& one) {
      return one.completed && other.time - one.ended < rules_.patience;
    };
    const auto waitsLong = [&](int waiter) {
      const auto& waits = of(waiter)->waits;
      return std::any_of(waits.begin(), waits.end(), [&](const RecordedWait& wait) {
        return wait.number == waiting_.at(waiter)->number &&
               wait.idle >= kWaitsLong * rules_.patience;
      });
    };
    if (failure_ || !other.open || other.stopped || other.ended ||
        std::none_of(other.calls.begin(), other.calls.end(), lately) ||
        std::any_of(waiters.begin(), waiters.end(), waitsLong))
      return false;
    return computes_ = true;
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
      if (innocent(rank) || !named.insert(rank).second ||
          (other.open && !other.stopped && blocked(rank, other)))
        continue;
      const RecordedCall& call = *waiting_.at(waiters.front());
      if (early(other, call)) {
        tooEarly(rank);
        continue;
      }
      if (computes(other, waiters)) continue;
      const char* const kind = !other.open ? "left" : other.stopped ? "stopped" : "never_entered";
      found_.push_back(
          {kind, rank,
           "rank " + std::to_string(rank) + (other.open ? "" : " has closed the communicator and") +
               (other.open && other.stopped ? " is stopped (SIGSTOP, or a debugger) and" : "") +
               " never entered " + call.text() + ", where " + ranksText(waiters) +
               (waiters.size() == 1 ? " waits" : " wait")});
    }
  }

  /// Ranks that are stopped while others wait for them. If ranks have no dump, because they gave up
  /// and ended, a call in which the rank is stopped and waits for no rank is enough.
  void nameStopped() {
    const bool only_awaited = ranks_.size() == static_cast<std::size_t>(size_) || hasCulprit();
    for (const auto& [rank, recorded] : ranks_) {
      if (!recorded.stopped || recorded.ended || innocent(rank) || named(rank)) continue;
      const RecordedCall* const call = inFlight(recorded);
      const auto waiters = stopped_.find(rank);
      const bool alone = waiters == stopped_.end();
      if (alone && (!call || only_awaited || waiting_.contains(rank))) continue;
      std::string text = "rank " + std::to_string(rank) + " is stopped (SIGSTOP, or a debugger)";
      if (call) text += " in " + call->text();
      if (!alone)
        text += ", where " + ranksText(waiters->second) +
                (waiters->second.size() == 1 ? " waits" : " wait");
      found_.push_back({"stopped", rank, text});
    }
  }

  /// Ranks without a dump are the cause only if no rank with one is.
  void nameMissing() {
    if (hasCulprit() || certain() || absent_.empty()) return;
    const bool present = rules_.all_present;
    std::vector<int> missing;
    std::set<int> all;
    for (const auto& [rank, waiters] : absent_) {
      missing.push_back(rank);
      all.insert(waiters.begin(), waiters.end());
    }
    const bool one = missing.size() == 1;
    const char* const why =
        !present ? (one ? " is on another host, and " : " are on other hosts, and ")
        : one    ? " has no dump here (it has died, or its dump was not made), and "
                 : " have no dump here (they have died, or their dumps were not made), and ";
    found_.push_back({"missing", one && present ? missing[0] : -1,
                      ranksText(missing) + why + ranksText({all.begin(), all.end()}) +
                          (all.size() == 1 ? " waits" : " wait")});
  }

  /// Slow links are the cause only if no rank is. A rank that has not ended an earlier call is not
  /// late, but held up by them.
  void nameSlowLinks() {
    const std::vector<Finding> slow = findSlowLinks(ranks_);
    if (slow.empty()) return;
    std::erase_if(found_, [&](const Finding& one) {
      return one.kind == "never_entered" && inFlight(*of(one.culprit));
    });
    if (!hasCulprit()) found_.insert(found_.begin(), slow.begin(), slow.end());
  }

  /// What the ranks found out themselves. A timeout names the rank that the last one waited for,
  /// which may itself wait; of two different calls it names the second.
  void addFailure() {
    int culprit = hasCulprit() || failure_->culprit >= size_ ? -1 : failure_->culprit;
    if ((failure_->code == "timeout" && waiting_.contains(culprit)) ||
        (failure_->code == "mismatch" && !found_.empty()))
      culprit = -1;
    found_.push_back({"failure", culprit,
                      "the communicator failed: " + failure_->code + ": " + failure_->text +
                          (certain() ? endedCall() : "")});
  }

  /// The first collective that the failure ended, and the ranks that were in it. (Errors that are
  /// not certain name their call themselves.)
  std::string endedCall() const {
    std::map<std::uint64_t, Party> ended;
    for (const auto& [number, rank] : ranks_)
      for (const RecordedCall& call : rank.calls)
        if (number != failure_->culprit && !call.completed && !call.p2p)
          ended.try_emplace(call.sequence, Party{&call, {}}).first->second.ranks.push_back(number);
    if (ended.empty()) return "";
    const auto& [sequence, party] = *ended.begin();
    std::string text = "; " + ranksText(party.ranks) +
                       (party.ranks.size() == 1 ? " was in " : " were in ") + party.call->text();
    const RecordedRank* const culprit = of(failure_->culprit);
    if (culprit && culprit->entered < sequence)
      text += ", which rank " + std::to_string(failure_->culprit) + " had not entered";
    return text;
  }

  /// Ranks wait, and none is late: says for whom.
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
                      (elsewhere_.empty() ? "every rank has entered its call, but nothing moves: "
                                          : "nothing moves: ") +
                          (text.empty() ? std::to_string(waiting_.size()) + " ranks wait" : text)});
  }

  const Dumps& dumps_;
  const std::string communicator_;
  const JudgeRules rules_;
  const Ranks& ranks_;
  const int size_;
  const RecordedFailure* failure_ = nullptr;
  std::map<int, const RecordedCall*> waiting_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> late_; ///< by call and rank
  std::map<int, std::vector<int>> absent_, stopped_;               ///< who waits for them
  std::set<std::pair<int, std::string>> elsewhere_;
  bool computes_ = false; ///< a rank for which others wait, but not for long
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

std::vector<Finding> judge(const Dumps& dumps, const std::string& communicator,
                           const JudgeRules& rules) {
  return Judge(dumps, communicator, rules).run();
}

} // namespace rondo::tools
