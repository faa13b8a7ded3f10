// The messages of a run that were lent to peers: lending, revoking and ending.
#include "engine/open_loans.h"

#include <sched.h>

#include <chrono>

#include "base/clock.h"
#include "base/log.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kManyLoans = 32;

/// About 20 us: much longer than an active peer takes to read a slot, much shorter than the wait
/// for a peer that is delayed.
constexpr std::uint32_t kPatientLooks = 500;

/// Much longer than any pass over memory takes, even on a machine that pauses at times.
constexpr std::chrono::seconds kReadingAtMost{5};

} // namespace

void OpenLoans::lend(End& end, const transport::MessageHeader& header, const std::byte* data) {
  const std::uint64_t number = end.ring->lend(header, *end.offer);
  // Without the returned ones the list stays short: a channel has at most `depth` open loans.
  if (open_.size() >= kManyLoans) std::erase_if(open_, [](const Loan& l) { return l.returned(); });
  open_.push_back({&end, number, data, header.bytes});
  end.offer.reset();
}

bool OpenLoans::reclaim(const std::byte* data, std::size_t bytes) {
  for (std::size_t i = 0; i < open_.size();) {
    const Loan& loan = open_[i];
    const bool apart = loan.data >= data + bytes || data >= loan.data + loan.bytes;
    if (apart) {
      ++i;
      continue;
    }
    if (!loan.returned() && !loan.revoke()) return false;
    open_[i] = open_.back();
    open_.pop_back();
  }
  return true;
}

bool OpenLoans::settle() {
  const bool late = ++looks_ >= kPatientLooks;
  std::erase_if(open_,
                [late](const Loan& loan) { return loan.returned() || (late && loan.revoke()); });
  if (open_.empty()) looks_ = 0;
  return open_.empty();
}

/// A reading thread never blocks, so the deadline passes only if something stops that thread.
void OpenLoans::withdraw() {
  const auto deadline = base::Clock::now() + kReadingAtMost;
  for (const Loan& loan : open_) {
    const auto ended = [&] { return loan.returned() || loan.end->ring->withdraw(loan.number); };
    while (!ended() && !loan.end->loans->outliveSender()) {
      if (base::Clock::now() >= deadline) {
        base::log(LogLevel::warn, "rank ", loan.end->peer, " did not read ", loan.bytes,
                  " lent bytes to the end within ", kReadingAtMost.count(),
                  " s: the wait for it was given up");
        break;
      }
      sched_yield();
    }
  }
  open_.clear();
  looks_ = 0;
}

const End* OpenLoans::unreturned() const {
  for (const Loan& loan : open_)
    if (!loan.returned()) return loan.end;
  return nullptr;
}

} // namespace rondo::engine
