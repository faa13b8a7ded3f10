// Records the calls of one rank of a communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ticks.h"
#include "observe/layout.h"
#include "observe/listener.h"
#include "rondo/collectives.h"
#include "rondo/error.h"
#include "rondo/types.h"

namespace rondo::observe {

class Block;
class Recorder;

/// What the calls of one shape have in common.
struct Shape {
  Collective collective = Collective::barrier;
  DataType type = DataType::int8;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  bool uneven = false;        ///< a v-form
  bool sending = false;       ///< Send, not Recv
  std::uint8_t algorithm = 0; ///< see Recorder::algorithm()
  std::uint16_t root = 0;     ///< Send and Recv: the peer
  std::uint64_t count = 0;

  constexpr std::uint64_t packed() const {
    return static_cast<std::uint64_t>(collective) | static_cast<std::uint64_t>(type) << 8 |
           static_cast<std::uint64_t>(op) << 16 | std::uint64_t{uneven} << 24 |
           std::uint64_t{sending} << 25 | std::uint64_t{algorithm} << 32 |
           std::uint64_t{root} << 40;
  }
  /// "AllReduce", "Send", ...; without the "v" of v-forms.
  std::string_view title() const {
    if (collective != Collective::sendrecv) return traits(collective).title;
    return sending ? "Send" : "Recv";
  }
  /// False for bits that packed() does not make.
  static bool unpack(std::uint64_t packed, Shape& shape);
};

/// What is recorded of all calls of a shape.
struct CallFacts {
  std::uint64_t packed = 0; ///< see Shape
  /// Elements, as the call names them. ReduceScatterv and AllGatherv: of all blocks
  /// together. Other v-forms: 0.
  std::uint64_t count = 0;
  std::uint64_t bytes = 0; ///< what the call adds to the total of its collective
};

/// A call's place in the record. It must not outlive the recorder.
class Ticket {
 public:
  Ticket() = default;
  /// Records that the call has ended. Needs the communicator's mutex, as Recorder::begin().
  inline void end(bool failed) const;

 private:
  friend class Recorder;
  Recorder* recorder_ = nullptr;
  std::uint64_t number_ = 0;
};

/// The rank and communicator whose calls a recorder records.
struct Identity {
  std::uint64_t job = 0, communicator = 0;
  int rank = 0, size = 1;
  std::string transports; ///< "shm, tcp"
};

/// One thread at a time, except fail(). Other threads, signal handlers and processes may read what
/// it writes at any time. A call costs a few stores. Listeners and readers are served on a slow
/// path; without them a call executes no further instruction.
class Recorder {
 public:
  explicit Recorder(const Identity& identity);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// A call begins, or has begun at `ticks`. `sequence`: number of a collective, or of a message to
  /// a peer.
  Ticket begin(const CallFacts& call, std::uint64_t sequence, bool collective,
               std::uint64_t ticks = base::ticks()) {
    Ticket ticket;
    latest_ = ticks | 1;
    if (!unheard_) return beginHeard(call, sequence, collective);
    ticket.number_ = write(*unheard_, call, sequence, collective);
    ticket.recorder_ = this;
    return ticket;
  }

  /// From now on the listener hears of this rank's calls. Call it between calls.
  void listen(std::unique_ptr<CallListener> listener);
  /// From now on the ends of calls are measured, and kMostTraced calls are kept, for the reader,
  /// which is destroyed when no more calls come. Call it once, between calls, with a block().
  void keepFor(std::unique_ptr<RecordReader> reader);
  /// What a reader reads; null: nothing is recorded.
  const std::shared_ptr<Block>& block() const { return block_; }
  /// Calls so far.
  std::uint64_t calls() const { return number_; }

  /// Index of an algorithm's name in this communicator; one for all others once there are many.
  std::uint8_t algorithm(std::string_view name);
  /// The name of an index; empty if there is none.
  std::string_view algorithmName(std::uint8_t index) const;
  const Identity& identity() const { return identity_; }

  /// Begins a new list of what the calls in flight wait for. Readers see the old list until
  /// looked().
  void look();
  /// Adds to the new list what a call waits for, and for how many nanoseconds already. Only the
  /// first 6 entries of a list are kept.
  void waits(const Ticket& call, int peer, const std::string& text, std::uint64_t nanoseconds);
  /// Replaces the old list by the new one.
  void looked();

  /// The communicator failed now. `culprit` is a rank of the communicator, and `in_job` the same
  /// rank's number in the job; -1: none. Any thread; only the first failure is kept.
  void fail(ErrorCode code, const std::string& text, int culprit, int in_job);

 private:
  friend class Ticket;
  /// In the tickets of calls that listeners hear of: the other bits are the index in heard_.
  static constexpr std::uint64_t kHeard = std::uint64_t{1} << 63;

  static void put(std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  }
  /// Writes the call that begins at latest_ into the block, and returns its number.
  std::uint64_t write(BlockHead& head, const CallFacts& call, std::uint64_t sequence,
                      bool collective) {
    const std::uint64_t number = ++number_;
    if ((number & mask_) == 0) grow();
    Record& record = records_[number & mask_];
    // A reader that sees this number also sees all earlier records, and their capacity.
    std::atomic_ref(head.claimed).store(number, std::memory_order_release);
    // A reader that sees a part of the new record also sees that the old one was given up.
    std::atomic_thread_fence(std::memory_order_release);
    put(record.sequence, sequence);
    put(record.entered, latest_);
    put(record.ended, 0);
    put(record.what, call.packed);
    put(record.count, call.count);
    std::atomic_ref(record.number).store(number, std::memory_order_release);
    if (collective) put(head.entered, sequence);
    // No other thread of this process reads these, and 64 bits are stored at once.
    const std::uint64_t kind = call.packed & 0xff;
    ++head.calls[kind];
    head.bytes[kind] += call.bytes;
    return number;
  }
  void ended(std::uint64_t number, bool failed) {
    Record& record = end_records_[number & end_mask_];
    if (record.number == number) put(record.ended, (latest_ & ~std::uint64_t{1}) | failed);
    else endOtherwise(number, failed);
  }
  Ticket beginHeard(const CallFacts& call, std::uint64_t sequence, bool collective);
  void endOtherwise(std::uint64_t number, bool failed);
  void endHeard(std::size_t index, bool failed);
  void measureEnd(std::uint64_t number, bool failed);
  Record firstOfFailure() const;
  void grow();
  void resize(std::uint64_t more, std::uint64_t last);

  std::shared_ptr<Block> block_; ///< null: nothing is recorded
  BlockHead* head_ = nullptr;
  BlockHead* unheard_ = nullptr; ///< head_ while there is no listener
  Record* records_ = &none_;
  std::uint64_t mask_ = 0;
  /// records_; or &none_ while a trace reads, so that no record matches and ended() takes the slow
  /// path, which reads the clock.
  Record* end_records_ = &none_;
  std::uint64_t end_mask_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t latest_ = 0; ///< the last time that this object read the clock
  std::uint64_t waits_ = 0;  ///< of the look that has not ended
  std::atomic<bool> failed_{false};
  const Identity identity_;
  Record none_; ///< in place of the records if there are none; its number is 0
  std::unique_ptr<RecordReader> reader_;
  std::vector<std::unique_ptr<CallListener>> listeners_;
  std::vector<Record> heard_;     ///< calls in flight that listeners have heard of
  std::vector<std::size_t> free_; ///< indices of heard_
};

inline void Ticket::end(bool failed) const {
  if (recorder_) recorder_->ended(number_, failed);
}

} // namespace rondo::observe
