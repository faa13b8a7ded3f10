// A bounded channel in memory that both ranks see: the data path of every mapped transport. It is
// more than 500 lines long because both ends must agree on one layout and its states.
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
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/copy.h"
#include "base/memory_file.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport {

/// Single producer, single consumer. One thread at a time may call the producer's functions, and
/// another one the consumer's. Everything that the producer wrote before publish() is visible to
/// the consumer after readable() has returned the header. All reads before release() happen before
/// the producer's next writable() that returns true for this line or slot.
///
/// A message's flag, header and a body of up to kInlineBytes share one cache line, so a message
/// costs one line transfer. Two messages of up to kSmallBytes share a line, so a consumer that is
/// late gets both by one transfer. Positions count halves of lines and only grow. A message's flag
/// is its position plus one. The flag of a second half is cleared when the first half is written,
/// because a body may have been there; no other flag is ever cleared.
///
/// Larger bodies go to one of `depth` slots. Those below kLargeBodyBytes are packed: a slot gets
/// one or more of them, at most kBodiesTogether, up to a quarter of the memory that bodies of this
/// size use in turn. This memory is the channel's share of kReuseBytes; for bodies up to
/// kSmallBodyBytes three quarters of the share, for large bodies kLargeReuseTimes the share. Small
/// ones may have gaps between them (kGapBytes). A slot is used again only when all its bodies have
/// been consumed. As long as the consumer keeps up, the slots in use together have the size of this
/// memory, so that they stay in the caches. There are kLinesPerSlot times as many lines as slots,
/// so that ranks which only send can run ahead of the others.
///
/// Where takingLinesPays(), the consumer also writes to each line of a body that it has read, if
/// the body is below the limit given to release(). Larger ones mostly leave the caches before their
/// slot is used again.
///
/// When the producer has published a message, it prefetches the next message's line for writing.
/// Before it copies a body of up to kPrefetchTo, it prefetches all lines of the body's place.
///
/// A producer may publish a message early: before its body, which it then copies to the slot in
/// pieces. So a consumer that only copies the body copies at the same time. For such bodies, the
/// slots in use have the size of the share, as for smaller ones, and the consumer writes to the
/// lines of each piece that it has copied (where takingLinesPays()).
///
/// A larger body may be lent instead of copied: it stays in the producer's memory, and the consumer
/// reads it there. Until the consumer starts to read, the producer can revoke the loan by copying
/// the body into the slot. If the consumer's process does not map a body, both ends may copy parts
/// of it to the consumer's memory ("share" it). If the consumer is late, the producer copies all
/// parts that the consumer has not begun. So no rank ever waits for a peer in order to reuse
/// memory.
class SlotRing {
 public:
  static constexpr std::size_t kInlineBytes = 40, kSmallBytes = 8;

  /// Part of the memory that the transport may use for its own data.
  static constexpr std::size_t kNotesBytes = 48;
  static std::byte* notes(void* memory) { return static_cast<std::byte*>(memory) + 16; }

  static constexpr std::size_t bytesNeeded(int depth, std::size_t slot_bytes) {
    return kBodiesAt(depth) + static_cast<std::size_t>(depth) * padded(slot_bytes);
  }

  /// A part of a body that both ends copy.
  struct Part {
    std::uint64_t to = 0; ///< address in the consumer's process
    std::size_t offset = 0, bytes = 0;
  };

  /// Whether all slots have memory, or only the lines. In the latter case the producer allocates
  /// the memory of a slot when a message needs it (base::allocateMapped), and keeps it.
  enum class Slots { whole, grow };

  /// `memory` is zeroed (as fresh mappings are), aligned to 64 bytes, bytesNeeded() long, and the
  /// same memory at both ends. `keep` keeps it alive.
  SlotRing(void* memory, int depth, std::size_t slot_bytes, std::shared_ptr<void> keep,
           Slots slots = Slots::whole)
      : base_(static_cast<std::byte*>(memory)),
        bodies_(base_ + kBodiesAt(depth)),
        depth_(static_cast<std::uint64_t>(depth)),
        lines_(kLinesPerSlot * depth_),
        stride_(padded(slot_bytes)),
        slot_bytes_(slot_bytes),
        keep_(std::move(keep)) {
    if (slots == Slots::whole) allocated_.fill(slot_bytes);
  }
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  std::size_t slotBytes() const { return slot_bytes_; }
  int depth() const { return static_cast<int>(depth_); }

  // Functions of the producer.

  /// Whether there may be gaps between small bodies, see kGapBytes. The result of takingLinesPays()
  /// unless set.
  void leaveGaps(bool leaves) { gaps_ = leaves; }
  /// Sets the channel's share of kReuseBytes.
  void shareReuse(std::size_t bytes) { reuse_bytes_ = bytes; }
  /// Whether another message with a body of `bytes` may be written. After the last free line was
  /// used, the answer is no until 1 / kFreeAgain of the lines is free or kFullWait has passed.
  /// Otherwise the producer would look at the consumer's count, and so slow the consumer down, once
  /// for each message.
  bool writable(std::size_t bytes) {
    if (!full_ && roomFor(bytes)) return true;
    reclaim();
    const bool few = written_ - freed_ > 2 * (lines_ - lines_ / kFreeAgain);
    if (full_ && few && base::Clock::now() < full_until_) return false;
    full_ = !lineFree();
    if (full_) full_until_ = base::Clock::now() + kFullWait;
    return roomFor(bytes);
  }
  /// Whether there is room for a body of `bytes`, for diagnosis.
  bool hasRoom(std::size_t bytes) {
    reclaim();
    return roomFor(bytes);
  }
  /// The place for the next message's body of `bytes`; it does not change until the message is
  /// published. Call only after writable() has returned true. Throws Error(system) if there is no
  /// memory for the slot.
  std::byte* writeBody(std::size_t bytes) {
    if (bytes <= kSmallBytes) return halfOf(write_line_, written_).body;
    if (bytes <= kInlineBytes)
      return lineOf(written_ % 2 == 0 ? write_line_ : after(write_line_)).inline_body;
    if (!chosen_) choose(bytes);
    return bodyAt(chosen_at_, bytes);
  }
  void publish(const MessageHeader& header) {
    if (header.bytes <= kSmallBytes) {
      Half& half = halfOf(write_line_, written_);
      half.header = header;
      // An earlier larger message may have left bytes there that look like a flag.
      if (written_ % 2 == 0) halfOf(write_line_, 1).number.store(0, std::memory_order_relaxed);
      half.number.store(++written_, std::memory_order_release);
      if (written_ % 2 == 0) nextLine();
      return;
    }
    Line& line = beginLine(header);
    if (header.bytes > kInlineBytes) {
      line.state().store(kInSlot, std::memory_order_relaxed);
      place(line, header.bytes);
    }
    endLine(line);
  }
  /// Publishes a message of more than kInlineBytes before its body. Call only after writable() has
  /// returned true. Returns the place for the body. The producer then writes all of it, in order,
  /// and waits for nothing meanwhile. After each piece it calls wrote().
  std::byte* publishEarly(const MessageHeader& header) {
    if (!chosen_) choose(header.bytes, reuse_bytes_);
    std::byte* const body = bodyAt(chosen_at_, header.bytes);
    Line& line = beginLine(header);
    early_line_ = write_line_;
    line.state().store(kEarly, std::memory_order_relaxed);
    place(line, header.bytes);
    endLine(line);
    return body;
  }
  /// After publishEarly(): the first `written` bytes of the body of `bytes` are in the slot.
  void wrote(std::size_t written, std::size_t bytes) {
    const std::uint32_t state =
        written < bytes ? kEarly + kOneGrain * static_cast<std::uint32_t>(written / kSlotGrain)
                        : kInSlot;
    lineOf(early_line_).state().store(state, std::memory_order_release);
  }
  /// Publishes a message of more than kInlineBytes whose body stays at `loan` and must not change
  /// until returned() is true. Returns the message's number.
  std::uint64_t lend(const MessageHeader& header, const Loan& loan) {
    Line& line = beginLine(header);
    line.loan() = loan;
    line.state().store(kLent, std::memory_order_relaxed);
    place(line, header.bytes);
    endLine(line);
    return written_ - 1;
  }
  /// Whether the consumer is done with the body of a lent message: it has released the message, or
  /// the producer has copied all parts of the body. All its reads happen before this returns true.
  bool returned(std::uint64_t number) {
    if (freed_ < number) reclaim();
    return freed_ >= number || delivered(lineOf(lineAt(number)));
  }
  /// Whether the consumer has begun to read the body of a lent message, or shares it.
  bool beingRead(std::uint64_t number) {
    const std::uint32_t state = lineOf(lineAt(number)).state().load(std::memory_order_relaxed);
    return state == kTaken || (state & kKind) == kShared;
  }
  /// Takes the next part of a shared body (see share()) for the producer to copy; nothing if no
  /// part is left. After the copy call finishPart().
  std::optional<Part> takePart(std::uint64_t number, std::size_t bytes) {
    if (freed_ >= number) return {};
    Line& line = lineOf(lineAt(number));
    return claim(line, bytes, kOneOfProducer);
  }
  /// `copied`: false if the producer could not copy the part that it took.
  void finishPart(std::uint64_t number, bool copied) {
    std::atomic<std::uint32_t>& state = lineOf(lineAt(number)).state();
    if (!copied) state.fetch_or(kPartFailed, std::memory_order_relaxed);
    state.fetch_add(kOneFinished, std::memory_order_release);
  }
  /// Whether the consumer cannot read the lent body, so that the producer must revoke() the loan.
  bool refused(std::uint64_t number) {
    return lineOf(lineAt(number)).state().load(std::memory_order_relaxed) == kRefused;
  }
  /// Copies the body of a lent message that is not returned() into its slot. `bytes`: its size.
  /// False: too late, because the consumer is reading it; the consumer will release it without
  /// waiting for anything.
  bool revoke(std::uint64_t number, const void* data, std::size_t bytes) {
    Line& line = lineOf(lineAt(number));
    const std::uint32_t state = line.state().load(std::memory_order_acquire);
    if (state != kLent && state != kRefused) return false;
    base::copyBytes(bodyAt(line.place(), bytes), data, bytes);
    return change(line, state, kInSlot);
  }
  /// As revoke(), but drops the message: the consumer never gets it. Only after a failure.
  bool withdraw(std::uint64_t number) {
    Line& line = lineOf(lineAt(number));
    return change(line, kLent, kWithdrawn) || change(line, kRefused, kWithdrawn);
  }
  /// As withdraw(), but also if the consumer has begun to read the body: it notices this before it
  /// uses what it has read (see unmapped()). The fence ensures that the consumer sees the new state
  /// before it sees anything that is written to the body later. A sequentially consistent store
  /// without a fence would not ensure this.
  void abandon(std::uint64_t number) {
    lineOf(lineAt(number)).state().store(kWithdrawn, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  // Functions of the consumer.

  /// Whether release() writes to each line that has been read, so that the producer's next write to
  /// it is faster: to the lines of bodies of less than `take_below` bytes. The result of
  /// takingLinesPays() unless set.
  void takeLines(bool takes) { takes_lines_ = takes; }
  /// The next message's header, or null.
  const MessageHeader* readable() {
    Half* half = &halfOf(read_line_, read_);
    std::uint64_t number = half->number.load(std::memory_order_acquire);
    if (number == (kSkipped | (read_ + 1))) { // the next message begins at the next line
      ++read_;
      read_line_ = after(read_line_);
      half = &halfOf(read_line_, read_);
      number = half->number.load(std::memory_order_acquire);
    }
    return number == read_ + 1 ? &half->header : nullptr;
  }
  /// The body of the next message. Call only after readable() has returned a header. `loans` finds
  /// a lent body (null: no message of this ring is lent); the lender then waits for release() or
  /// giveBack(). Null: the message was withdrawn; or the consumer refused it, and the producer has
  /// not copied it to the slot yet; or the body is not mapped here (see unmapped()).
  const std::byte* readBody(std::size_t bytes, Loans* loans = nullptr) {
    if (bytes <= kSmallBytes) return halfOf(read_line_, read_).body;
    Line& line = lineOf(read_line_);
    if (bytes <= kInlineBytes) return line.inline_body;
    const std::uint32_t state = line.state().load(std::memory_order_acquire);
    if (loans && state == kLent && change(line, kLent, kTaken))
      return loans->find(line.loan(), bytes);
    return line.state().load(std::memory_order_acquire) == kInSlot ? bodyAt(line.place(), bytes)
                                                                   : nullptr;
  }
  /// Whether the producer is writing the body of the next message, which has more than
  /// kInlineBytes; or copyWritten() has begun to copy it. Until the producer has written all,
  /// readBody() returns null. A consumer may call copyWritten() instead.
  bool early() {
    return copied_ > 0 ||
           (lineOf(read_line_).state().load(std::memory_order_acquire) & kKind) == kEarly;
  }
  /// While early(): copies to `to`, by `copy`, what the producer has written of the body since the
  /// last call. Returns whether that was the rest of the body. After it has copied a piece, the
  /// body may only be read by this function, because it has written to the lines.
  bool copyWritten(std::byte* to, std::size_t bytes,
                   void (*copy)(void*, const void*, std::size_t) = base::copyBytes) {
    Line& line = lineOf(read_line_);
    const std::uint32_t state = line.state().load(std::memory_order_acquire);
    const std::size_t written =
        state == kInSlot ? bytes : std::min<std::size_t>(state / kOneGrain * kSlotGrain, bytes);
    if (written > copied_) {
      std::byte* const body = bodyAt(line.place(), bytes);
      copy(to + copied_, body + copied_, written - copied_);
      if (takes_lines_) writeLines(body + copied_, written - copied_);
      copied_ = written;
    }
    return copied_ == bytes;
  }
  /// After readBody() returned null: the loan of a body that is not mapped here; null if the
  /// message was withdrawn or refused. Call it again after reading the body. If it is not null
  /// then, the producer had not called abandon() before, and the body is valid. The fence ensures
  /// that the state is read after the body.
  const Loan* unmapped() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Line& line = lineOf(read_line_);
    const std::uint32_t state = line.state().load(std::memory_order_relaxed);
    return state == kTaken || (state & kKind) == kShared ? &line.loan() : nullptr;
  }
  /// After unmapped(): from now on both ends copy parts of the body to this address of the
  /// consumer's process. Each part is copied by one end; the consumer takes them from the front and
  /// the producer from the back.
  void share(std::byte* to) { share(lineOf(read_line_), to); }
  /// The address given to share() or shareLater() for the next message; null: it is not shared.
  std::byte* sharedTo() {
    Line& line = lineOf(read_line_);
    if ((line.state().load(std::memory_order_relaxed) & kKind) != kShared) return nullptr;
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(line.destination()));
  }
  /// As share(), for the message that is `later` messages after the next one. The next one must be
  /// large and readable(). Does nothing unless the later one has arrived, has the same size and
  /// signature, and `may` accepts its loan. So the producer can copy parts of it before the
  /// consumer needs it.
  template <class May>
  void shareLater(std::uint64_t later, std::byte* to, const May& may) {
    Line& line = lineOf((read_line_ + later) % lines_);
    if (line.number.load(std::memory_order_acquire) != read_ + 2 * later + 1) return;
    const MessageHeader& first = lineOf(read_line_).header;
    if (line.header.signature != first.signature || line.header.bytes != first.bytes) return;
    if (line.state().load(std::memory_order_relaxed) == kLent && change(line, kLent, kTaken)) {
      if (may(std::as_const(line.loan()))) return share(line, to);
      change(line, kTaken, kLent);
    }
  }
  /// After a failure: gives back all messages whose bodies the consumer has begun to read. Of
  /// shared ones it first takes all parts that neither end has begun, so that the producer begins
  /// no more parts. Returns false while the producer is still copying a part. Then call it again.
  bool giveAllBack() {
    bool all = true;
    for (std::uint64_t later = 0; later < depth_; ++later) {
      Line& line = lineOf((read_line_ + later) % lines_);
      if (line.number.load(std::memory_order_acquire) != read_ + 2 * later + 1 ||
          line.header.bytes <= kInlineBytes || change(line, kTaken, kLent) ||
          (line.state().load(std::memory_order_acquire) & kKind) != kShared)
        continue;
      while (claim(line, line.header.bytes, kOneOfConsumer)) continue;
      const std::uint32_t state = line.state().load(std::memory_order_acquire);
      if (field(state, kOneFinished) == field(state, kOneOfProducer)) {
        line.state().store(kLent, std::memory_order_release);
      } else {
        all = false;
      }
    }
    return all;
  }
  /// The next part that the consumer is to copy, or nothing.
  std::optional<Part> nextPart(std::size_t bytes) {
    return claim(lineOf(read_line_), bytes, kOneOfConsumer);
  }
  /// After nextPart() returned nothing. pending: the producer has not finished its parts. copied:
  /// the body is complete. failed: one of the ends could not copy a part.
  enum class Parts { pending, copied, failed };
  Parts parts() {
    std::atomic_thread_fence(std::memory_order_seq_cst); // as in unmapped()
    const std::uint32_t state = lineOf(read_line_).state().load(std::memory_order_acquire);
    if ((state & kKind) != kShared || // withdrawn
        field(state, kOneFinished) != field(state, kOneOfProducer))
      return Parts::pending;
    return state & kPartFailed ? Parts::failed : Parts::copied;
  }
  /// Whether the next message is readable(), but its body is not: the producer has to copy it, or a
  /// part of it, first.
  bool awaitsBody() {
    if (halfOf(read_line_, read_).header.bytes <= kInlineBytes) return false;
    const std::uint32_t state = lineOf(read_line_).state().load(std::memory_order_acquire);
    return state == kRefused || (state & kKind) == kEarly ||
           ((state & kKind) == kShared &&
            field(state, kOneFinished) != field(state, kOneOfProducer));
  }
  /// The consumer could not copy a part that it took.
  void failPart() { lineOf(read_line_).state().fetch_or(kPartFailed, std::memory_order_relaxed); }
  /// Undoes readBody().
  void giveBack() {
    if (halfOf(read_line_, read_).header.bytes > kInlineBytes)
      change(lineOf(read_line_), kTaken, kLent);
  }
  /// After unmapped(), when no part is pending: the consumer cannot read the body. The producer
  /// then copies it to its slot.
  void refuse() { lineOf(read_line_).state().store(kRefused, std::memory_order_release); }
  /// Ends the consumer's use of the next message. `take_below`: see takeLines().
  void release(std::size_t take_below = kLargeBodyBytes) {
    const std::size_t bytes = halfOf(read_line_, read_).header.bytes;
    if (bytes > kInlineBytes) {
      if (bytes < take_below && takes_lines_ && copied_ == 0) takeLines(lineOf(read_line_), bytes);
      copied_ = 0;
    }
    pass(bytes);
  }
  /// release() for a message of at most kInlineBytes.
  void releaseSmall() { pass(halfOf(read_line_, read_).header.bytes); }

 private:
  // The states of a large message: where its body is.
  static constexpr std::uint32_t kInSlot = 0, kLent = 1, kTaken = 2, kWithdrawn = 3, kShared = 4,
                                 kRefused = 5, kEarly = 6, kKind = 7;
  // The state of an early message also has the size of what is in the slot, in units of kSlotGrain.
  static constexpr std::uint32_t kOneGrain = kKind + 1;
  // The state of a shared message also has counters: parts that the consumer has taken (8 bits),
  // parts that the producer has taken (8 bits), parts that the producer has finished (7 bits).
  static constexpr std::uint32_t kOneOfConsumer = 1u << 8, kOneOfProducer = 1u << 16,
                                 kOneFinished = 1u << 24, kPartFailed = 1u << 31;
  static constexpr std::size_t kMostParts = 64;
  // Therefore a body that both ends copy has a slot of its own, and at most depth_ of them are in
  // flight.
  static_assert(kShareBytes >= kLargeBodyBytes);

  /// In the flag of a second half: this half stays empty.
  static constexpr std::uint64_t kSkipped = std::uint64_t{1} << 63;

  struct Half {
    std::atomic<std::uint64_t> number;
    MessageHeader header;
    std::byte body[kSmallBytes];
  };
  /// The layout of a line with one message.
  struct alignas(64) Line {
    std::atomic<std::uint64_t> number;
    MessageHeader header;
    std::byte inline_body[kInlineBytes];

    // Large messages have no inline body, so its place holds their state.
    std::atomic<std::uint32_t>& state() {
      return *std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(inline_body));
    }
    std::uint32_t& place() {
      return *std::launder(reinterpret_cast<std::uint32_t*>(inline_body + 4));
    }
    Loan& loan() { return *std::launder(reinterpret_cast<Loan*>(inline_body + 8)); }
    std::uint64_t& destination() {
      return *std::launder(reinterpret_cast<std::uint64_t*>(inline_body + 8 + sizeof(Loan)));
    }
  };
  static_assert(sizeof(Line) == 64 && sizeof(Half) == 32);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  static_assert(8 + sizeof(Loan) + 8 <= kInlineBytes);

  /// Goes on to the message after the next one, which has `bytes`.
  void pass(std::size_t bytes) {
    if (read_ % 2 == 1 || bytes > kSmallBytes) {
      read_ = (read_ | 1) + 1;
      read_line_ = after(read_line_);
    } else {
      ++read_;
    }
    consumed().store(read_, std::memory_order_release);
  }
  bool roomFor(std::size_t bytes) const {
    if (bytes <= kSmallBytes && written_ % 2 == 1) return true;
    return lineFree() && (bytes <= kInlineBytes || fitsLast(bytes) ||
                          std::countr_one(busy_) < static_cast<int>(depth_));
  }
  bool lineFree() const { return written_ + written_ % 2 + 2 <= freed_ + 2 * lines_; }
  /// Frees everything that the consumer has released since the last call.
  void reclaim() {
    const std::uint64_t released = std::min(consumed().load(std::memory_order_acquire), written_);
    for (; freed_ < released; ++freed_)
      if (freed_ % 2 == 0) {
        if (const std::uint8_t taken = std::exchange(taken_[freed_line_], std::uint8_t{0}))
          if (--bodies_in_[taken - 1u] == 0) busy_ &= ~(std::uint64_t{1} << (taken - 1));
        freed_line_ = after(freed_line_);
      }
  }
  /// How much slot memory bodies of this size use in turn while the consumer keeps up.
  std::size_t inTurn(std::size_t bytes) const {
    return bytes >= kLargeBodyBytes  ? kLargeReuseTimes * reuse_bytes_
           : bytes > kSmallBodyBytes ? reuse_bytes_
                                     : reuse_bytes_ / 4 * 3;
  }
  /// The part of each slot that bodies of this size share.
  std::size_t partOfSlot(std::size_t bytes) const {
    if (bytes >= kLargeBodyBytes) return bytes;
    return std::min({slot_bytes_, inTurn(bytes) / kSlotsAtFirst, kBodiesTogether * (bytes + gap_)});
  }
  /// The distance between bodies in a slot that begins with this one. See kGapBytes.
  std::size_t gapFor(std::size_t bytes) {
    if (!gaps_ || bytes < kGapFrom || bytes > kGapTo) return 0;
    reclaim();
    return written_ - freed_ < 2 * kKeepsUp ? kGapBytes : 0;
  }
  /// Whether the slot chosen last has room for one more body after those it has.
  bool fitsLast(std::size_t bytes) const { return last_ && used_ + bytes <= partOfSlot(bytes); }
  /// Chooses the place of the next message's body.
  void choose(std::size_t bytes) { choose(bytes, inTurn(bytes)); }
  void choose(std::size_t bytes, std::size_t in_turn) {
    if (!fitsLast(bytes)) {
      gap_ = gapFor(bytes);
      last_ = nextSlot(bytes, in_turn);
      used_ = 0;
    }
    if (!holds(last_, used_ + bytes)) [[unlikely]]
      allocate(indexOf(last_), used_ + bytes, partOfSlot(bytes));
    chosen_ = last_;
    chosen_at_ = (indexOf(last_) * stride_ + used_) / kSlotGrain;
    used_ += padded(bytes) + gap_;
    if (bytes <= kPrefetchTo) prefetchForWriting(bodyAt(chosen_at_, bytes), bytes);
  }
  /// A slot without bodies.
  std::uint64_t nextSlot(std::size_t bytes, std::size_t in_turn) {
    const std::uint64_t share = in_turn / std::max(bytes, partOfSlot(bytes)),
                        slots = std::min(std::max<std::uint64_t>(share, 2), depth_);
    std::uint64_t next = last_ << 1;
    if (next == 0 || (slots < 64 && next >> slots != 0) ||
        (next >> kSlotsAtFirst != 0 && bytes < kLargeBodyBytes && !holds(next, bytes)))
      next = 1;
    if (busy_ & next) reclaim();
    return busy_ & next ? ~busy_ & (busy_ + 1) : next;
  }
  static std::uint64_t indexOf(std::uint64_t chosen) {
    return static_cast<std::uint64_t>(std::countr_zero(chosen));
  }
  bool holds(std::uint64_t chosen, std::size_t bytes) const {
    return allocated_[indexOf(chosen)] >= bytes;
  }
  /// Gives the slot `bytes` of memory, or twice what it has, up to `most`. So small bodies that
  /// share a slot need few system calls, and memory is at most twice what has been used.
  void allocate(std::uint64_t slot, std::size_t bytes, std::size_t most) {
    bytes = std::max(bytes, std::min(2 * allocated_[slot], most));
    bytes = std::min((bytes + kPage - 1) / kPage * kPage, slot_bytes_);
    base::allocateMapped(bodies_ + slot * stride_, bytes);
    allocated_[slot] = bytes;
  }
  /// Assigns its place to the next message, which has more than kInlineBytes.
  void place(Line& line, std::size_t bytes) {
    if (!chosen_) choose(bytes);
    line.place() = static_cast<std::uint32_t>(chosen_at_);
    busy_ |= chosen_;
    ++bodies_in_[indexOf(chosen_)];
    taken_[write_line_] = static_cast<std::uint8_t>(indexOf(chosen_) + 1);
    chosen_ = 0;
  }
  /// Begins a message that needs a whole line.
  Line& beginLine(const MessageHeader& header) {
    if (written_ % 2 == 1) {
      halfOf(write_line_, 1).number.store(kSkipped | (written_ + 1), std::memory_order_release);
      ++written_;
      nextLine();
    }
    Line& line = lineOf(write_line_);
    line.header = header;
    return line;
  }
  void endLine(Line& line) {
    line.number.store(written_ + 1, std::memory_order_release);
    written_ += 2;
    nextLine();
  }
  /// Goes on to the next message's line, and prefetches it.
  void nextLine() {
    write_line_ = after(write_line_);
    prefetchForWriting(reinterpret_cast<std::byte*>(&lineOf(write_line_)), sizeof(Line));
  }
  /// Gets ownership of lines that this core will write. Several prefetches overlap, while writes to
  /// lines that another core holds wait for each other.
  static void prefetchForWriting(std::byte* at, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64) {
#if defined(__x86_64__)
      // Unless the compiler may assume this instruction, __builtin_prefetch() makes one that gets
      // no ownership. Processors without prefetchw execute it as a no-op.
      asm volatile("prefetchw %0" : : "m"(at[i]));
#else
      __builtin_prefetch(at + i, 1);
#endif
    }
  }
  static std::uint32_t field(std::uint32_t state, std::uint32_t one) {
    return state / one & (one == kOneFinished ? 0x7f : 0xff);
  }
  static std::size_t partBytes(std::size_t bytes) {
    return std::max(kSharePart, padded((bytes + kMostParts - 1) / kMostParts));
  }
  static std::size_t partsOf(std::size_t bytes) {
    return (bytes + partBytes(bytes) - 1) / partBytes(bytes);
  }
  /// Whether the producer has copied all parts of a shared body.
  static bool delivered(Line& line) {
    const std::uint32_t state = line.state().load(std::memory_order_relaxed);
    return (state & kKind) == kShared && !(state & kPartFailed) &&
           field(state, kOneFinished) == partsOf(line.header.bytes);
  }
  /// Takes the next part of a shared body. `one`: 1 in the counter of the end that takes it.
  std::optional<Part> claim(Line& line, std::size_t bytes, std::uint32_t one) {
    const std::size_t size = partBytes(bytes), parts = partsOf(bytes);
    std::uint32_t state = line.state().load(std::memory_order_acquire);
    do {
      const std::size_t taken = field(state, kOneOfConsumer) + field(state, kOneOfProducer);
      if ((state & kKind) != kShared || taken >= parts) return {};
    } while (!line.state().compare_exchange_weak(state, state + one, std::memory_order_acq_rel,
                                                 std::memory_order_acquire));
    const std::size_t index = field(state, one);
    const std::size_t begin = size * (one == kOneOfConsumer ? index : parts - 1 - index);
    return Part{line.destination() + begin, begin, std::min(size, bytes - begin)};
  }
  static void share(Line& line, std::byte* to) {
    line.destination() = reinterpret_cast<std::uintptr_t>(to);
    change(line, kTaken, kShared); // or it was withdrawn
  }
  /// Writes to each line of a body that the consumer has read, and to the message's own line. After
  /// reading, the caches of both cores hold these lines; after this, only the consumer's does. The
  /// writes come before the release store to consumed(), and the producer writes to the slot only
  /// after its acquire load of consumed() in reclaim(). So these writes need no more ordering than
  /// the consumer's reads. The producer reads place() only while the message is lent, and the
  /// acquire load below has seen that it is not.
  void takeLines(Line& line, std::size_t bytes) {
    if (line.state().load(std::memory_order_acquire) != kInSlot) return;
    bytes = std::min(bytes, slot_bytes_); // the peer may have written any number
    writeLines(bodyAt(line.place(), bytes), bytes);
    line.place() = 0;
  }
  static void writeLines(std::byte* body, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += 64) body[at] = std::byte{0};
  }
  static bool change(Line& line, std::uint32_t from, std::uint32_t to) {
    return line.state().compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }

  /// The smallest page. The memory of a slot grows by whole pages.
  static constexpr std::size_t kPage = 4096;

  static constexpr std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  /// Bodies start on a new page, so that a small body touches only one page.
  static constexpr std::size_t kBodiesAt(int depth) {
    const std::size_t lines = 64 * (1 + kLinesPerSlot * static_cast<std::size_t>(depth));
    return (lines + kPage - 1) / kPage * kPage;
  }
  std::atomic<std::uint64_t>& consumed() {
    return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(base_));
  }
  std::uint64_t after(std::uint64_t line) const { return line + 1 == lines_ ? 0 : line + 1; }
  std::uint64_t lineAt(std::uint64_t number) const { return (number - 1) / 2 % lines_; }
  /// The half of the line that belongs to `position`.
  Half& halfOf(std::uint64_t line, std::uint64_t position) {
    return *std::launder(reinterpret_cast<Half*>(base_ + 64 * (1 + line) + 32 * (position % 2)));
  }
  Line& lineOf(std::uint64_t index) {
    return *std::launder(reinterpret_cast<Line*>(base_ + 64 * (1 + index)));
  }
  /// `place`: distance from bodies_ in units of kSlotGrain. The peer may have written any number.
  std::byte* bodyAt(std::uint64_t place, std::size_t bytes) {
    return bodies_ + std::min(kSlotGrain * place, depth_ * stride_ - padded(bytes));
  }

  std::byte* const base_;
  std::byte* const bodies_;
  const std::uint64_t depth_, lines_;
  const std::size_t stride_, slot_bytes_;
  std::shared_ptr<void> keep_;
  alignas(64) std::uint64_t written_ = 0, freed_ = 0, write_line_ = 0, freed_line_ = 0;
  // Sets of slots, as bits: those with bodies, the slot of the next message, the slot chosen last.
  std::uint64_t busy_ = 0, chosen_ = 0, last_ = 0;
  std::uint64_t chosen_at_ = 0; ///< the place of the next message, see bodyAt()
  std::size_t used_ = 0;        ///< where the next body in the slot chosen last begins
  std::size_t gap_ = 0;         ///< between the bodies in it
  bool gaps_ = takingLinesPays();
  bool full_ = false; ///< see writable()
  base::Clock::time_point full_until_{};
  std::size_t reuse_bytes_ = kReuseBytes;
  std::uint64_t early_line_ = 0;                   ///< of the last message that was published early
  std::array<std::size_t, kMaxDepth> allocated_{}; ///< memory of each slot, in bytes
  std::array<std::uint16_t, kMaxDepth> bodies_in_{}; ///< number of bodies in each slot
  /// for each line: its slot + 1, or 0
  std::array<std::uint8_t, kLinesPerSlot * kMaxDepth> taken_{};
  alignas(64) std::uint64_t read_ = 0, read_line_ = 0;
  bool takes_lines_ = takingLinesPays();
  std::size_t copied_ = 0; ///< by copyWritten(), of the next message's body
};

} // namespace rondo::transport
