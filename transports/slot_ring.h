// A bounded channel in memory that both ranks see: the data path of every mapped transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "transports/transport.h"

namespace rondo::transport {

/// Single producer, single consumer. The producer's functions may be called by one thread at a time,
/// the consumer's by another. All that the producer wrote before publish() is visible to the consumer
/// once readable() returned the header; all reads before release() happen before the producer's
/// next writable() that returns true for this slot.
///
/// A slot's flag, header and a body of up to kInlineBytes share one cache line, so a small message
/// costs one line transfer. Flags hold message numbers and only grow: nothing is ever reset.
class SlotRing {
 public:
  static constexpr std::size_t kInlineBytes = 40;

  static constexpr std::size_t bytesNeeded(int depth, std::size_t slot_bytes) {
    return kBodiesAt(depth) + static_cast<std::size_t>(depth) * padded(slot_bytes);
  }

  /// `memory` is zeroed (as fresh mappings are), 64-byte aligned, bytesNeeded() long, and the same
  /// memory at both ends. `keep` holds it alive.
  SlotRing(void* memory, int depth, std::size_t slot_bytes, std::shared_ptr<void> keep)
      : base_(static_cast<std::byte*>(memory)),
        bodies_(base_ + kBodiesAt(depth)),
        depth_(static_cast<std::uint64_t>(depth)),
        stride_(padded(slot_bytes)),
        slot_bytes_(slot_bytes),
        keep_(std::move(keep)) {}
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  std::size_t slotBytes() const { return slot_bytes_; }
  int depth() const { return static_cast<int>(depth_); }

  // Producer.

  /// Whether the next message has a free slot.
  bool writable() {
    if (written_ - freed_ < depth_) return true;
    freed_ = consumed().load(std::memory_order_acquire);
    return written_ - freed_ < depth_;
  }
  /// Where the next message's body of `bytes` goes. Only after writable() was true.
  std::byte* writeBody(std::size_t bytes) { return body(writeSlot_, bytes); }
  void publish(const MessageHeader& header) {
    Line& line = lineOf(writeSlot_);
    line.header = header;
    line.number.store(++written_, std::memory_order_release);
    if (++writeSlot_ == depth_) writeSlot_ = 0;
  }

  // Consumer.

  /// The next message's header, or null.
  const MessageHeader* readable() {
    Line& line = lineOf(readSlot_);
    return line.number.load(std::memory_order_acquire) == read_ + 1 ? &line.header : nullptr;
  }
  /// Its body. Only after readable().
  const std::byte* readBody(std::size_t bytes) { return body(readSlot_, bytes); }
  void release() {
    consumed().store(++read_, std::memory_order_release);
    if (++readSlot_ == depth_) readSlot_ = 0;
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint64_t> number;
    MessageHeader header;
    std::byte inline_body[kInlineBytes];
  };
  static_assert(sizeof(Line) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

  static constexpr std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr std::size_t kBodiesAt(int depth) {
    return 64 * (1 + static_cast<std::size_t>(depth));
  }
  std::atomic<std::uint64_t>& consumed() {
    return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(base_));
  }
  Line& lineOf(std::uint64_t slot) {
    return *std::launder(reinterpret_cast<Line*>(base_ + 64 * (1 + slot)));
  }
  std::byte* body(std::uint64_t slot, std::size_t bytes) {
    return bytes <= kInlineBytes ? lineOf(slot).inline_body : bodies_ + slot * stride_;
  }

  std::byte* const base_;
  std::byte* const bodies_;
  const std::uint64_t depth_;
  const std::size_t stride_, slot_bytes_;
  std::shared_ptr<void> keep_;
  alignas(64) std::uint64_t written_ = 0, freed_ = 0, writeSlot_ = 0;
  alignas(64) std::uint64_t read_ = 0, readSlot_ = 0;
};

} // namespace rondo::transport
