#include "observe/follow.h"

#include <cstring>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "observe/memory.h"

namespace rondo::observe {

namespace {

/// Records that are copied before the reader looks whether they were overwritten meanwhile.
constexpr std::uint64_t kTogether = 64;

std::uint64_t load(std::uint64_t& word) {
  return std::atomic_ref(word).load(std::memory_order_relaxed);
}

} // namespace

Follower::Follower(std::shared_ptr<Block> block, std::uint64_t first)
    : block_(std::move(block)), head_(block_->head()), records_(block_->records()), next_(first) {
  oldest();
}

std::uint64_t Follower::last() const {
  return std::atomic_ref(head_.claimed).load(std::memory_order_acquire);
}

std::uint64_t Follower::unread() const {
  const auto in_flight =
      std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.call != 0; });
  return last() + 1 - next_ + static_cast<std::uint64_t>(in_flight);
}

Record Follower::copy(std::uint64_t number) const {
  Record& from = records_[number & (capacity_ - 1)];
  Record to;
  to.number = std::atomic_ref(from.number).load(std::memory_order_acquire);
  to.sequence = load(from.sequence);
  to.entered = load(from.entered);
  to.ended = load(from.ended);
  to.what = load(from.what);
  to.count = load(from.count);
  return to;
}

/// Number of the oldest call whose record is kept. Updates capacity_.
std::uint64_t Follower::oldest() {
  // Whoever reads a part of a new record sees that the old one was given up.
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t claimed = last();
  // After `claimed`: with an older capacity, calls that are kept would seem overwritten.
  capacity_ = std::atomic_ref(head_.capacity).load(std::memory_order_acquire);
  return claimed < capacity_ ? 1 : claimed - capacity_ + 1;
}

/// The call's record; its number is 0 if it was overwritten.
Record Follower::find(std::uint64_t number) {
  for (;;) {
    const std::uint64_t capacity = capacity_;
    Record found = copy(number);
    const std::uint64_t kept = oldest();
    if (capacity_ != capacity) continue; // the record was elsewhere
    if (found.number != number || number < kept) found.number = 0;
    return found;
  }
}

bool Follower::read(std::uint64_t last, std::uint64_t ticks, std::vector<Call>& ended) {
  settle(ticks, ended);
  if (next_ > last) return false;
  if (const std::uint64_t kept = oldest(); next_ < kept) {
    // Goes on a little later, where it is not overtaken at once.
    const std::uint64_t now = std::min(kept + kTogether, this->last());
    missed_ += now - next_;
    next_ = now;
    return true;
  }
  std::array<Record, kTogether> some;
  const std::uint64_t capacity = capacity_;
  const std::uint64_t count = std::min(kTogether, last + 1 - next_);
  for (std::uint64_t i = 0; i < count; ++i) some[i] = copy(next_ + i);
  const std::uint64_t kept = oldest();
  if (capacity_ != capacity) return true; // the records were elsewhere
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool found = some[i].number == next_ && next_ >= kept;
    // Only the last one can be incomplete: it may be being written.
    if (!found && some[i].number < next_ && next_ == last) return false;
    if (found) place(some[i], ticks, ended);
    else ++missed_;
    ++next_;
  }
  return true;
}

/// Reads the calls that were in flight again.
void Follower::settle(std::uint64_t ticks, std::vector<Call>& ended) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    auto& [call, until] = lanes_[lane];
    if (call == 0) continue;
    const Record now = find(call);
    if (now.number == 0) {
      ++missed_;
    } else {
      if (now.ended == 0 || now.ended > ticks) continue;
      ended.push_back({now, static_cast<std::uint32_t>(lane)});
      until = now.ended;
    }
    call = 0;
  }
}

/// Calls come in the order in which they began, so the lowest lane that is free is the best.
void Follower::place(const Record& record, std::uint64_t ticks, std::vector<Call>& ended) {
  const auto free = std::find_if(lanes_.begin(), lanes_.end(), [&record](const Lane& lane) {
    return lane.call == 0 && lane.until <= record.entered;
  });
  const auto lane = static_cast<std::uint32_t>(free - lanes_.begin());
  if (free == lanes_.end()) lanes_.emplace_back();
  if (record.ended == 0 || record.ended > ticks) {
    lanes_[lane].call = record.number;
  } else {
    lanes_[lane].until = record.ended;
    ended.push_back({record, lane});
  }
}

std::uint64_t Follower::takeMissed() { return std::exchange(missed_, 0); }

std::uint32_t Follower::laneOf(std::uint64_t number) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [number](const Lane& lane) { return lane.call == number; });
  return found == lanes_.end() ? 0 : static_cast<std::uint32_t>(found - lanes_.begin());
}

std::string_view Follower::algorithm(std::uint8_t index) const {
  if (index >= BlockHead::kAlgorithms) return {};
  const char(&name)[32] = head_.algorithms[index];
  return {name, ::strnlen(name, sizeof(name))};
}

} // namespace rondo::observe
