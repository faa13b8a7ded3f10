// The parts of the recorder that a call does not pass.
#include "observe/recorder.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "observe/memory.h"

namespace rondo::observe {

namespace {

/// So many calls ahead a record is fetched for writing. Otherwise the stores of a call, and with
/// them its message, wait for it: 5 ns of an 8-byte call, if the record has 16,384 calls.
constexpr std::uint64_t kAhead = 16;

template <std::size_t size>
void copy(char (&to)[size], std::string_view from) {
  const std::size_t bytes = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), bytes);
  std::memset(to + bytes, 0, size - bytes);
}

} // namespace

bool Shape::unpack(std::uint64_t packed, Shape& shape) {
  const auto byte = [packed](int shift) { return packed >> shift & 0xff; };
  if (byte(0) >= kCollectiveCount || byte(8) >= kDataTypeCount || byte(16) >= ReduceOp::kKindCount)
    return false;
  shape.collective = static_cast<Collective>(byte(0));
  shape.type = static_cast<DataType>(byte(8));
  shape.op = static_cast<ReduceOp::Kind>(byte(16));
  shape.uneven = packed >> 24 & 1;
  shape.sending = packed >> 25 & 1;
  shape.algorithm = static_cast<std::uint8_t>(byte(32));
  shape.root = static_cast<std::uint16_t>(packed >> 40);
  return shape.packed() == packed;
}

Recorder::Recorder(const Identity& identity) : block_(Block::take()), identity_(identity) {
  if (!block_) return;
  unheard_ = head_ = &block_->head();
  records_ = end_records_ = block_->records();
  mask_ = end_mask_ = kFewRecords - 1;
  head_->rank = identity.rank;
  head_->size = identity.size;
  head_->job = identity.job;
  head_->communicator = identity.communicator;
  head_->capacity = kFewRecords;
  copy(head_->transports, identity.transports);
  std::atomic_ref(head_->state).store(State::open, std::memory_order_release);
}

Recorder::~Recorder() {
  if (!block_ || !block_->here()) return;
  head_->last = failed_ ? firstOfFailure() : records_[number_ & mask_];
  std::atomic_ref(head_->state).store(State::closed, std::memory_order_release);
}

/// Of the kept calls, the first that the failure ended; if there is none, the last call. Calls that
/// were refused before the failure have failed, too, but a later call was completed after them. (If
/// none was, they cannot be told apart.)
Record Recorder::firstOfFailure() const {
  const std::uint64_t kept = std::min(number_, mask_);
  Record first = records_[number_ & mask_];
  std::uint64_t completed = 0;
  for (std::uint64_t n = number_ - kept + 1; n <= number_; ++n)
    if (const Record& call = records_[n & mask_]; call.number == n && (call.ended & 1) == 0)
      completed = std::max(completed, call.ended);
  for (std::uint64_t n = number_; n > number_ - kept; --n) {
    const Record& call = records_[n & mask_];
    if (call.number != n) continue;
    if (call.ended == 0 || ((call.ended & 1) != 0 && call.ended > completed)) first = call;
  }
  return first;
}

void Recorder::listen(std::unique_ptr<CallListener> listener) {
  listeners_.push_back(std::move(listener));
  unheard_ = nullptr;
}

void Recorder::keepFor(std::unique_ptr<RecordReader> reader) {
  reader_ = std::move(reader);
  end_records_ = &none_;
  end_mask_ = 0;
  // As many as if it had grown for a reader from the first call on.
  resize(std::min<std::uint64_t>(std::bit_ceil(number_ + 1), kMostTraced), number_);
}

Ticket Recorder::beginHeard(const CallFacts& call, std::uint64_t sequence, bool collective) {
  Ticket ticket;
  if (listeners_.empty()) return ticket;
  if (head_) write(*head_, call, sequence, collective);
  else ++number_;
  if (free_.empty()) {
    free_.push_back(heard_.size());
    heard_.emplace_back();
  }
  const std::size_t index = free_.back();
  free_.pop_back();
  heard_[index] = {number_, sequence, latest_, 0, call.packed, call.count};
  for (const auto& one : listeners_) one->begun(heard_[index]);
  ticket.recorder_ = this;
  ticket.number_ = kHeard | index;
  return ticket;
}

/// The call is not in the fast path's record: listeners or a reader want its end, or it was
/// overwritten while in flight.
void Recorder::endOtherwise(std::uint64_t number, bool failed) {
  if (number & kHeard) endHeard(number & ~kHeard, failed);
  else if (reader_) measureEnd(number, failed);
}

void Recorder::endHeard(std::size_t index, bool failed) {
  Record& call = heard_[index];
  measureEnd(call.number, failed);
  call.ended = (latest_ & ~std::uint64_t{1}) | failed;
  for (const auto& one : listeners_) one->ended(call);
  free_.push_back(index);
}

void Recorder::measureEnd(std::uint64_t number, bool failed) {
  latest_ = base::ticks() | 1;
  Record& record = records_[number & mask_];
  if (record.number == number) put(record.ended, (latest_ & ~std::uint64_t{1}) | failed);
  __builtin_prefetch(&records_[(number + kAhead) & mask_], 1);
  if (reader_ && (number & (kMostTraced / 2 - 1)) == 0) reader_->filled();
}

void Recorder::grow() {
  const std::uint64_t more = 2 * (mask_ + 1);
  if (more <= (reader_ ? kMostTraced : kMostRecords)) resize(more, number_ - 1);
}

/// `last`: the last call that has a record. The old places keep their contents, for readers that do
/// not know the new capacity yet.
void Recorder::resize(std::uint64_t more, std::uint64_t last) {
  if (more <= mask_ + 1 || !block_->allocate(more)) return;
  // Calls up to number mask_ keep their places. There are later ones only if the record was full
  // before: there was no reader, or no memory.
  for (std::uint64_t n = last; n > mask_ && last - n <= mask_; --n) {
    const Record& from = records_[n & mask_];
    Record& to = records_[n & (more - 1)];
    put(to.sequence, from.sequence);
    put(to.entered, from.entered);
    put(to.ended, from.ended);
    put(to.what, from.what);
    put(to.count, from.count);
    std::atomic_ref(to.number).store(n, std::memory_order_release);
  }
  mask_ = more - 1;
  if (!reader_) end_mask_ = mask_;
  std::atomic_ref(head_->capacity).store(more, std::memory_order_release);
}

std::uint8_t Recorder::algorithm(std::string_view name) {
  if (!head_) return 0;
  constexpr std::size_t kLast = BlockHead::kAlgorithms - 1;
  for (std::size_t i = 0; i < kLast; ++i) {
    char(&known)[32] = head_->algorithms[i];
    if (known[0] == 0) copy(known, name);
    if (name.substr(0, sizeof(known) - 1) == known) return static_cast<std::uint8_t>(i);
  }
  if (head_->algorithms[kLast][0] == 0) copy(head_->algorithms[kLast], "other");
  return kLast;
}

std::string_view Recorder::algorithmName(std::uint8_t index) const {
  return head_ && index < BlockHead::kAlgorithms ? head_->algorithms[index] : std::string_view();
}

void Recorder::look() {
  if (!head_) return;
  latest_ = base::ticks() | 1;
  waits_ = 0;
}

void Recorder::waits(const Ticket& call, int peer, const std::string& text,
                     std::uint64_t nanoseconds) {
  if (call.number_ == 0) return;
  const std::uint64_t number =
      call.number_ & kHeard ? heard_[call.number_ & ~kHeard].number : call.number_;
  if (reader_) reader_->waits(number, peer, text);
  if (!head_ || waits_ == BlockHead::kWaits) return;
  Wait& wait = head_->wait[~head_->waits >> 8 & 1][waits_++];
  wait.number = number;
  wait.since = nanoseconds;
  wait.peer = peer;
  copy(wait.text, text);
}

void Recorder::looked() {
  if (!head_ || (waits_ == 0 && (head_->waits & 0xff) == 0)) return;
  const std::uint64_t half = ~head_->waits & 0x100;
  std::atomic_ref(head_->waits).store(half | waits_, std::memory_order_release);
}

void Recorder::fail(ErrorCode code, const std::string& text, int culprit, int in_job) {
  if (!head_ || failed_.exchange(true)) return;
  const std::chrono::nanoseconds now = base::Clock::now().time_since_epoch();
  head_->failed = static_cast<std::uint64_t>(now.count());
  head_->culprit = culprit;
  head_->culprit_in_job = in_job;
  copy(head_->failure, text);
  copy(head_->failure_code, rondo::name(code));
}

} // namespace rondo::observe
