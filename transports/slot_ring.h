// A bounded channel in memory that both ranks see: the data path of every mapped transport.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport {

/// Single producer, single consumer. The producer's functions may be called by one thread at a time,
/// the consumer's by another. All that the producer wrote before publish() is visible to the consumer
/// once readable() returned the header; all reads before release() happen before the producer's
/// next writable() that returns true for this line or slot.
///
/// A message's flag, header and a body of up to kInlineBytes share one cache line, so a small message
/// costs one line transfer. Flags hold message numbers and only grow: nothing is ever reset. Larger
/// bodies go to one of `depth` slots; where the consumer keeps up, only as many are used in turn as
/// fit the channel's share of kReuseBytes, so that they stay in the caches. There are kLinesPerSlot times as many lines as
/// slots: ranks that only send may run ahead of the others.
///
/// A larger body may be lent instead of copied: it stays where the sender has it, and the consumer
/// reads it there. Until the consumer has begun to, the producer can still revoke the loan by copying
/// the body into the slot after all: so nobody ever waits for a peer in order to reuse memory.
class SlotRing {
 public:
  static constexpr std::size_t kInlineBytes = 40;

  /// Free for the transport's own use, in the same memory.
  static constexpr std::size_t kNotesBytes = 48;
  static std::byte* notes(void* memory) { return static_cast<std::byte*>(memory) + 16; }

  static constexpr std::size_t bytesNeeded(int depth, std::size_t slot_bytes) {
    return kBodiesAt(depth) + static_cast<std::size_t>(depth) * padded(slot_bytes);
  }

  /// `memory` is zeroed (as fresh mappings are), 64-byte aligned, bytesNeeded() long, and the same
  /// memory at both ends. `keep` holds it alive.
  SlotRing(void* memory, int depth, std::size_t slot_bytes, std::shared_ptr<void> keep)
      : base_(static_cast<std::byte*>(memory)),
        bodies_(base_ + kBodiesAt(depth)),
        depth_(static_cast<std::uint64_t>(depth)),
        lines_(kLinesPerSlot * depth_),
        stride_(padded(slot_bytes)),
        slot_bytes_(slot_bytes),
        keep_(std::move(keep)) {}
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  std::size_t slotBytes() const { return slot_bytes_; }
  int depth() const { return static_cast<int>(depth_); }

  // Producer.

  /// So many channels, this one among them, share kReuseBytes.
  void shareReuse(std::size_t channels) { reuse_bytes_ = kReuseBytes / channels; }
  /// Whether there is room for a next message with a body of `bytes`.
  bool writable(std::size_t bytes) {
    if (roomFor(bytes)) return true;
    reclaim();
    return roomFor(bytes);
  }
  /// Where the next message's body of `bytes` goes; the same place until it is published. Only after
  /// writable() was true.
  std::byte* writeBody(std::size_t bytes) {
    if (bytes <= kInlineBytes) return lineOf(writeLine_).inline_body;
    if (!chosen_) choose(bytes);
    return bodyAt(static_cast<std::uint64_t>(std::countr_zero(chosen_)));
  }
  void publish(const MessageHeader& header) {
    Line& line = lineOf(writeLine_);
    line.header = header;
    if (header.bytes > kInlineBytes) {
      line.state().store(kInSlot, std::memory_order_relaxed);
      place(line, header.bytes);
    }
    publishLine(line);
  }
  /// Publishes a message of more than kInlineBytes whose body stays at `loan`, unchanged until
  /// returned(). Its number.
  std::uint64_t lend(const MessageHeader& header, const Loan& loan) {
    Line& line = lineOf(writeLine_);
    line.header = header;
    line.loan() = loan;
    line.state().store(kLent, std::memory_order_relaxed);
    place(line, header.bytes);
    publishLine(line);
    return written_;
  }
  /// Whether the consumer has released the message; its reads happened before.
  bool returned(std::uint64_t number) {
    if (freed_ < number) reclaim();
    return freed_ >= number;
  }
  /// Copies the body, of `bytes`, of a lent message that is not returned() into its slot. False: too late, the
  /// consumer reads it, and will release it without waiting for anything.
  bool revoke(std::uint64_t number, const void* data, std::size_t bytes) {
    Line& line = lineOf((number - 1) % lines_);
    if (line.state().load(std::memory_order_relaxed) != kLent) return false;
    std::memcpy(bodyAt(line.place()), data, bytes);
    return change(line, kLent, kInSlot);
  }
  /// As revoke(), but the message is gone: the consumer never gets it. Only when all has failed.
  bool withdraw(std::uint64_t number) {
    return change(lineOf((number - 1) % lines_), kLent, kWithdrawn);
  }

  // Consumer.

  /// The next message's header, or null.
  const MessageHeader* readable() {
    Line& line = lineOf(readLine_);
    return line.number.load(std::memory_order_acquire) == read_ + 1 ? &line.header : nullptr;
  }
  /// Its body. Only after readable(). A lent one is found by `loans` (null: nothing is ever lent here),
  /// and the lender then waits for release(), or for giveBack(). Null: it was withdrawn.
  const std::byte* readBody(std::size_t bytes, Loans* loans = nullptr) {
    Line& line = lineOf(readLine_);
    if (bytes <= kInlineBytes) return line.inline_body;
    const std::uint32_t state = line.state().load(std::memory_order_acquire);
    if (loans && state == kLent && change(line, kLent, kTaken))
      return loans->find(line.loan(), bytes);
    return line.state().load(std::memory_order_acquire) == kWithdrawn ? nullptr
                                                                      : bodyAt(line.place());
  }
  /// As if readBody() had not been called.
  void giveBack() {
    Line& line = lineOf(readLine_);
    if (line.header.bytes > kInlineBytes) change(line, kTaken, kLent);
  }
  void release() {
    consumed().store(++read_, std::memory_order_release);
    if (++readLine_ == lines_) readLine_ = 0;
  }

 private:
  // Where the body of a large message is.
  static constexpr std::uint32_t kInSlot = 0, kLent = 1, kTaken = 2, kWithdrawn = 3;

  struct alignas(64) Line {
    std::atomic<std::uint64_t> number;
    MessageHeader header;
    std::byte inline_body[kInlineBytes];

    // Large messages have no inline body.
    std::atomic<std::uint32_t>& state() {
      return *std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(inline_body));
    }
    std::uint32_t& place() {
      return *std::launder(reinterpret_cast<std::uint32_t*>(inline_body + 4));
    }
    Loan& loan() { return *std::launder(reinterpret_cast<Loan*>(inline_body + 8)); }
  };
  static_assert(sizeof(Line) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);
  static_assert(8 + sizeof(Loan) <= kInlineBytes);

  bool roomFor(std::size_t bytes) const {
    return written_ - freed_ < lines_ &&
           (bytes <= kInlineBytes || std::countr_one(busy_) < static_cast<int>(depth_));
  }
  /// Learns what the consumer has released meanwhile.
  void reclaim() {
    const std::uint64_t released = std::min(consumed().load(std::memory_order_acquire), written_);
    for (; freed_ < released; ++freed_) busy_ &= ~std::exchange(taken_[freed_ % lines_], 0);
  }
  void choose(std::size_t bytes) {
    const std::uint64_t in_turn =
        std::min(std::max<std::uint64_t>(reuse_bytes_ / bytes, 2), depth_);
    chosen_ = last_ << 1;
    if (chosen_ == 0 || (in_turn < 64 && chosen_ >> in_turn != 0)) chosen_ = 1;
    if (busy_ & chosen_) reclaim();
    if (busy_ & chosen_) chosen_ = ~busy_ & (busy_ + 1);
    last_ = chosen_;
  }
  /// Gives the next message, of more than kInlineBytes, its place.
  void place(Line& line, std::size_t bytes) {
    line.place() = static_cast<std::uint32_t>((writeBody(bytes) - bodies_) / stride_);
    busy_ |= chosen_;
    taken_[writeLine_] = chosen_;
    chosen_ = 0;
  }
  void publishLine(Line& line) {
    line.number.store(++written_, std::memory_order_release);
    if (++writeLine_ == lines_) writeLine_ = 0;
  }
  static bool change(Line& line, std::uint32_t from, std::uint32_t to) {
    return line.state().compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }

  static constexpr std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr std::size_t kBodiesAt(int depth) {
    return 64 * (1 + kLinesPerSlot * static_cast<std::size_t>(depth));
  }
  std::atomic<std::uint64_t>& consumed() {
    return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(base_));
  }
  Line& lineOf(std::uint64_t index) {
    return *std::launder(reinterpret_cast<Line*>(base_ + 64 * (1 + index)));
  }
  std::byte* bodyAt(std::uint64_t place) { return bodies_ + std::min(place, depth_ - 1) * stride_; }

  std::byte* const base_;
  std::byte* const bodies_;
  const std::uint64_t depth_, lines_;
  const std::size_t stride_, slot_bytes_;
  std::shared_ptr<void> keep_;
  alignas(64) std::uint64_t written_ = 0, freed_ = 0, writeLine_ = 0;
  // Sets of places, as bits: all that hold a body, the next message's, the one chosen last, and each
  // pending message's.
  std::uint64_t busy_ = 0, chosen_ = 0, last_ = 0;
  std::size_t reuse_bytes_ = kReuseBytes;
  std::array<std::uint64_t, kLinesPerSlot * kMaxDepth> taken_{};
  alignas(64) std::uint64_t read_ = 0, readLine_ = 0;
};

} // namespace rondo::transport
