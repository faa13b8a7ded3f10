// What the members of one communicator told each other, and the verdicts drawn from it.
//
// One verdict on all ranks, by these rules:
//  - The first verdict on a communicator stays, and is everybody's.
//  - A rank whose process ended is dead. One that loses its connection to another only accuses it:
//    when no death is heard of within a moment, the link between the two is what broke. So it is
//    where nothing that is sent to another arrives, if that one answers the hub. (Ranks of one
//    process, which have no hub, ask nobody: there the accused is to blame.)
//  - Between hub and rank, who is not heard is to blame. The hub blames a rank whose frames stopped
//    (the rank still hears that verdict). A rank blames the hub's host when the hub's heartbeats
//    stopped; the hub knows it by then, since a rank's reports name the last heartbeat that it
//    heard, and tells all others the same.
//  - Ranks that called different things are found by comparing what they called, before any other
//    explanation of a call that ends late. The majority is right, and of equal parts the one with
//    the lowest rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/session.h"

namespace rondo::bootstrap {

using Blobs = std::vector<std::vector<std::byte>>;

/// Largest blob of Session::allGather().
inline constexpr std::size_t kBlobBytes = 16 * 1024;
/// Texts of stalls and failures are cut to this, so that a few of them fit any control frame.
inline constexpr std::size_t kTextBytes = 2048;

/// A copy of a ProgressBoard.
struct Progress {
  std::uint64_t entered = 0, completed = 0;

  static Progress of(const ProgressBoard& board);
  bool operator==(const Progress&) const = default;
};

/// One exchange of blobs, on its way.
struct Round {
  explicit Round(int size) : blobs(static_cast<std::size_t>(size)), came(blobs.size()) {}

  Blobs blobs;
  std::vector<bool> came;
  int count = 0;
  bool split = false; ///< blobs are colors and keys; said by the first

  /// False if the rank was there already.
  bool contribute(int rank, bool is_split, std::vector<std::byte> blob);
  bool complete() const { return static_cast<std::size_t>(count) == came.size(); }
  std::vector<int> missing() const;
};

/// "rank 3", "ranks 3 and 5", "ranks 3, 5 and 7"; at most 16 are listed.
std::string rankList(const std::vector<int>& ranks);

/// Shared by the in-process group and the hub. Not thread-safe. Ranks are the communicator's.
class Ledger {
 public:
  explicit Ledger(int size);

  int size() const { return static_cast<int>(members_.size()); }

  /// The first failure stays; later ones are ignored. True if this one was the first.
  bool fail(const Failure& failure);
  const std::optional<Failure>& failure() const { return failure_; }

  /// The exchange number `index`; made by the first who asks. Forgotten with forgetRound().
  const std::shared_ptr<Round>& round(std::uint64_t index);
  void forgetRound(std::uint64_t index) { rounds_.erase(index); }
  std::size_t openRounds() const { return rounds_.size(); }
  /// The verdict on a rank that is about to contribute: it splits where others exchange, or the
  /// other way round; or it waits for a rank that has left.
  std::optional<Failure> contributing(int rank, const Round& round, bool is_split) const;

  void setProgress(int rank, const Progress& progress);
  const Progress& progress(int rank) const {
    return members_.at(static_cast<std::size_t>(rank)).progress;
  }
  /// A part of a rank's calls: the verdict when it contradicts another's part. It may name a block
  /// of calls, or two ranks of many; with all that all ranks know, different() says it exactly.
  std::optional<Failure> compare(int rank, const CallReport& calls);
  /// All that a rank knows of its calls; the last one counts.
  void setCalls(int rank, CallReport calls);
  /// The verdict on what setCalls() was told: the first call that not all ranks called alike.
  std::optional<Failure> different() const;
  /// The verdict on a rank's report that it waits: a peer that has left without entering the call,
  /// or, of a Send or Recv, that had left at the last report, too.
  /// Nothing: wait on.
  std::optional<Failure> stalled(int rank, const Stall& stall);
  /// The rank has left. The verdict on those who wait for it.
  std::optional<Failure> leave(int rank);
  bool hasLeft(int rank) const { return members_.at(static_cast<std::size_t>(rank)).left; }
  bool allLeft() const;
  /// Whether a rank that has not left is not known to have come to this call.
  bool anyBehind(std::uint64_t sequence) const;

  /// Adds to a timeout which ranks did not come, judged by the last setProgress() of every rank: in
  /// front of the text's details, which follow a semicolon.
  Failure completeTimeout(Failure failure, int reporter, const std::optional<Stall>& stall) const;
  /// Adds to the timeout of an exchange which ranks did not come, and makes the first one the
  /// culprit.
  Failure completeRound(Failure failure, std::uint64_t index) const;

  /// The verdict where a rank lost another that is alive: both are named, and the one that the
  /// first of them lost is the culprit.
  static Failure brokenLink(int accuser, const Failure& failure);
  /// The verdict where the hub's heartbeats do not reach a rank, which is the same on that rank and
  /// at the hub: who is not heard is to blame, so the hub's host is.
  static Failure unheardHost(const std::string& host, int culprit, int deaf,
                             std::chrono::milliseconds limit);

 private:
  struct Member {
    Progress progress;
    std::optional<CallReport> calls;
    std::optional<Stall> stall;
    bool left = false;
    bool heard_of_left = false; ///< at its last report, the rank that it waits for had left
  };
  std::optional<Failure> leftBehind(int waiting, int gone) const;

  std::vector<Member> members_;
  CallComparison comparison_;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds_;
  std::optional<Failure> failure_;
};

/// Who belongs together after a split: colors and keys by rank -> for each color, old ranks in
/// their new order.
std::map<int, std::vector<int>> splitGroups(const std::vector<std::pair<int, int>>& color_key);
/// Throws Error(transport) for a blob that encodeSplit() did not make.
std::pair<int, int> decodeSplit(const std::vector<std::byte>& blob);
std::vector<std::byte> encodeSplit(int color, int key);

/// Never zero. Equal on all ranks, and different for every (parent, index, color) of a job.
std::uint64_t childId(std::uint64_t parent, std::uint64_t index, int color);

/// As childId(), of the children that shrink() makes: `index` counts those of the same ranks.
std::uint64_t shrunkId(std::uint64_t parent, std::uint64_t index, const std::vector<bool>& stay);

/// Sets the word and wakes every thread that waits on it, by std::atomic or by futex.
void raise(std::atomic<std::uint32_t>& word);

/// "rank 2", or outside the communicator "rank 5 of the job", or "its process" when no rank hosts.
std::string hostName(int culprit, int host);

/// For Failure's texts: cut to kTextBytes.
std::string bounded(std::string text);

} // namespace rondo::bootstrap
