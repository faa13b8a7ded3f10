// Collects the members' reports about one communicator, and decides why it failed.
//
// The decision (verdict) is the same on all ranks, by these rules:
//   - The first verdict on a communicator is final, for all ranks.
//   - A rank whose process ended is dead. A rank that loses its connection to another rank only
//    accuses it. If no death becomes known within a moment, the verdict is that the link between
//    the two broke. The same holds when nothing that is sent to a rank arrives, but the rank
//    answers the hub. (Ranks of one process have no hub to ask; there the accused is the culprit.)
//   - Between the hub and a rank, the side that is not heard is the culprit. The hub blames a rank
//    whose frames stopped, and the rank still receives that verdict. A rank blames the hub's host
//    when the hub's beats stopped. The hub notices too, because ranks report the last beat that
//    they received, and gives all other ranks the same verdict.
//   - Differences between the ranks' calls are looked for before any other explanation of a late
//    call. The majority is right; if two groups are equally large, the one with the lowest rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/session.h"

namespace rondo::bootstrap {

using Blobs = std::vector<std::vector<std::byte>>;

/// Size limit of a blob in Session::allGather().
inline constexpr std::size_t kBlobBytes = 16 * 1024;
/// Texts of stalls and failures are cut to this size, so that a control frame holds several.
inline constexpr std::size_t kTextBytes = 2048;

/// A copy of a ProgressBoard.
struct Progress {
  std::uint64_t entered = 0, completed = 0;

  static Progress of(const ProgressBoard& board);
  bool operator==(const Progress&) const = default;
};

/// A rank that has left a communicator which others still use.
struct Departed {
  std::uint64_t communicator = 0;
  std::int32_t rank = 0; ///< of the communicator
  Progress progress;     ///< its last
};

/// One exchange of blobs that is under way.
struct Round {
  explicit Round(int size) : blobs(static_cast<std::size_t>(size)), came(blobs.size()) {}

  Blobs blobs;
  std::vector<bool> came;
  int count = 0;
  bool split = false; ///< blobs are colors and keys; set by the first rank

  /// Returns false if the rank has contributed already.
  bool contribute(int rank, bool is_split, std::vector<std::byte> blob);
  bool complete() const { return static_cast<std::size_t>(count) == came.size(); }
  std::vector<int> missing() const;
};

/// "rank 3", "ranks 3 and 5", "ranks 3, 5 and 7"; at most 16 are listed.
std::string rankList(const std::vector<int>& ranks);

/// Shared by the in-process group and the hub. Not thread-safe. Ranks are those of the
/// communicator.
class Ledger {
 public:
  explicit Ledger(int size);

  int size() const { return static_cast<int>(members_.size()); }

  /// Stores the first failure and returns true; ignores later ones.
  bool fail(const Failure& failure);
  const std::optional<Failure>& failure() const { return failure_; }

  /// The exchange with number `index`, created on first use. Call forgetRound() when it is over.
  const std::shared_ptr<Round>& round(std::uint64_t index);
  void forgetRound(std::uint64_t index) { rounds_.erase(index); }
  std::size_t openRounds() const { return rounds_.size(); }
  /// The numbers of the exchanges that all ranks have contributed to.
  std::vector<std::uint64_t> completeRounds() const;
  /// Call it before a rank contributes. Returns a failure if the rank splits while others exchange,
  /// or the other way round, or if a rank that it waits for has left.
  std::optional<Failure> contributing(int rank, const Round& round, bool is_split) const;

  void setProgress(int rank, const Progress& progress);
  /// The ranks that have left and whose last progress is known.
  std::map<int, Progress> departed() const;
  /// Compares a part of a rank's calls with the parts of others. A failure may name a block of
  /// calls, or only two of several ranks. different() gives the exact answer from all ranks' logs.
  std::optional<Failure> compare(int rank, const CallReport& calls);
  /// Stores all that a rank's log keeps; replaces earlier ones.
  void setCalls(int rank, CallReport calls);
  /// A failure that names the first call in which the logs from setCalls() differ.
  std::optional<Failure> different() const;
  /// A rank reports that it waits. Returns a failure if its peer has left and is known not to have
  /// entered the call; for a Send or Recv, if the peer had left at the previous report too.
  /// Otherwise nothing.
  std::optional<Failure> stalled(int rank, const Stall& stall);
  /// The rank has left. Returns a failure if other ranks wait for it.
  std::optional<Failure> leave(int rank);
  bool hasLeft(int rank) const { return left_.contains(rank); }
  bool allLeft() const { return left_.size() == members_.size(); }
  /// Whether some rank that has not left may not have entered this call yet.
  bool anyBehind(std::uint64_t sequence) const;

  /// Adds the ranks that did not enter the call to the text of a timeout, according to the last
  /// setProgress() of every rank, or else those that left and of which nothing is known. They are
  /// inserted before the details, which follow a semicolon.
  Failure completeTimeout(Failure failure, int reporter, const std::optional<Stall>& stall) const;
  /// Adds the missing ranks to the text of a timed-out exchange. The first of them is the culprit.
  Failure completeRound(Failure failure, std::uint64_t index) const;

  /// The failure when a rank lost another one that is alive. It names both; the culprit is the one
  /// that the first accuser lost.
  static Failure brokenLink(int accuser, const Failure& failure);
  /// The failure when the hub's beats do not reach a rank, equal on that rank and at the hub. The
  /// culprit is the hub's host.
  static Failure unheardHost(const std::string& host, int culprit, int deaf,
                             std::chrono::milliseconds limit);

 private:
  struct Member {
    std::optional<Progress> progress; ///< empty if unknown
    std::optional<CallReport> calls;
    std::optional<Stall> stall;
    bool heard_of_left = false; ///< at its last report, its peer had already left
  };
  std::optional<Failure> leftBehind(int waiting, int gone) const;

  std::vector<Member> members_;
  std::set<int> left_; ///< the ranks that have left
  CallComparison comparison_;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds_;
  std::optional<Failure> failure_;
};

/// The groups of a split: from (color, key) by rank, to the old ranks of each color in new order.
std::map<int, std::vector<int>> splitGroups(const std::vector<std::pair<int, int>>& color_key);
/// Throws Error(transport) for a blob that encodeSplit() did not make.
std::pair<int, int> decodeSplit(const std::vector<std::byte>& blob);
std::vector<std::byte> encodeSplit(int color, int key);

/// The id of a child; never zero. Equal on all ranks, unique for (parent, index, color) in a job.
std::uint64_t childId(std::uint64_t parent, std::uint64_t index, int color);

/// The same for children of shrink(). `index` counts the shrinks to the same ranks.
std::uint64_t shrunkId(std::uint64_t parent, std::uint64_t index, const std::vector<bool>& stay);

/// The same for children on which the living ranks agreed. Other hubs of the job give other ids.
std::uint64_t agreedId(std::uint64_t parent, std::uint64_t generation, std::uint64_t number);

/// Sets the word and wakes all threads that wait on it, through std::atomic or a futex.
void raise(std::atomic<std::uint32_t>& word);

/// "rank 2"; "rank 5 of the job" if it is outside the communicator; "its process" if no rank hosts.
std::string hostName(int culprit, int host);

/// Cuts a failure's text to kTextBytes.
std::string bounded(std::string text);

} // namespace rondo::bootstrap
