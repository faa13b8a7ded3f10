// The messages of a run that were lent to peers: when to lend, and when lent memory may be reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/fabric.h"

namespace rondo::engine {

/// The lent messages that their receivers may still read in this rank's memory. They belong to one
/// run. No message that is in this list may be overwritten; no run ends while the list has one.
/// Not thread-safe.
class OpenLoans {
 public:
  bool empty() const { return open_.empty(); }

  /// The loan of a message to this peer; empty if copying is better.
  static std::optional<transport::Loan> offer(const End& end, const std::byte* data,
                                              std::size_t bytes, transport::Use use) {
    if (!end.loans || bytes < end.loans->worthFrom(use)) return {};
    return end.loans->offer(data, bytes, use);
  }

  /// Sends the message whose body is `end.offer`, the memory at `data`.
  void lend(End& end, const transport::MessageHeader& header, const std::byte* data);

  /// Whether no peer reads this memory. Revokes the loans of it that no peer has begun to read.
  /// Returns false only while a peer is reading it.
  bool reclaim(const std::byte* data, std::size_t bytes);

  /// Copies parts of the bodies that peers copy together with this rank (SlotRing::share()). Copies
  /// bodies that peers cannot read to their slots. Returns whether it copied anything. Call it when
  /// the rank has nothing else to do.
  bool help();

  /// At the end of a run: calls help(), and returns whether all loans are returned. If settle() was
  /// called many times and no peer read or returned a loan meanwhile, revokes the loans that peers
  /// have not begun to read: each such peer gets a copy.
  bool settle();

  /// Ends all loans of a run that has failed, so that its caller may free the memory. Waits until
  /// the deadline for peers that are reading it.
  void withdraw(base::Clock::time_point deadline);

  /// The channel of a loan that is not returned, or null.
  const End* unreturned() const;

 private:
  struct Loan {
    End* end = nullptr;
    std::uint64_t number = 0;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;

    bool returned() const { return end->ring->returned(number); }
    bool beingRead() const { return end->ring->beingRead(number); }
    bool revoke() const { return end->ring->revoke(number, data, bytes); }
  };

  std::vector<Loan> open_;
  std::uint32_t looks_ = 0; ///< calls of settle() since a peer last read or returned a loan
};

} // namespace rondo::engine
