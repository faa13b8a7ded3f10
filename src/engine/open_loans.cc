// The messages of a run that were lent to peers: lending, revoking and ending.
#include "engine/open_loans.h"

#include <sched.h>

#include <algorithm>

#include "base/log.h"
#include "base/shared_region.h"

namespace rondo::engine {

namespace {

constexpr std::size_t kManyLoans = 32;

/// About 20 us: much longer than an active peer takes to read a slot, much shorter than the wait
/// for a peer that is delayed.
constexpr std::uint32_t kPatientLooks = 500;

} // namespace

void OpenLoans::lend(End& end, const transport::MessageHeader& header, const std::byte* data) {
  const std::uint64_t number = end.ring->lend(header, *end.offer);
  // Returned loans are erased, so that reclaim() looks at few.
  if (open_.size() >= kManyLoans) std::erase_if(open_, [](const Loan& l) { return l.returned(); });
  open_.push_back({&end, number, data, header.bytes});
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

bool OpenLoans::help() {
  bool helped = false;
  for (std::size_t i = 0; i < open_.size();) {
    const Loan& loan = open_[i];
    transport::SlotRing& ring = *loan.end->ring;
    if (!loan.returned() && ring.refused(loan.number)) {
      loan.end->loans->refused();
      loan.revoke();
      open_[i] = open_.back();
      open_.pop_back();
      helped = true;
      continue;
    }
    while (const auto part = ring.takePart(loan.number, loan.bytes)) {
      ring.finishPart(loan.number,
                      loan.end->loans->write(loan.data + part->offset, part->to, part->bytes));
      helped = true;
    }
    ++i;
  }
  return helped;
}

bool OpenLoans::settle() {
  help();
  const bool some = std::erase_if(open_, [](const Loan& loan) { return loan.returned(); }) > 0;
  const bool active = some || std::any_of(open_.begin(), open_.end(),
                                          [](const Loan& loan) { return loan.beingRead(); });
  looks_ = active ? 0 : looks_ + 1;
  if (looks_ >= kPatientLooks) std::erase_if(open_, [](const Loan& loan) { return loan.revoke(); });
  if (open_.empty()) looks_ = 0;
  return open_.empty();
}

/// A reading thread never blocks, so the deadline passes only if that thread is stopped (SIGSTOP).
void OpenLoans::withdraw(base::Clock::time_point deadline) {
  for (const Loan& loan : open_) {
    const auto ended = [&] { return loan.returned() || loan.end->ring->withdraw(loan.number); };
    while (!ended() && !loan.end->loans->peerEnded()) {
      if (base::Clock::now() >= deadline) {
        base::log(LogLevel::warn, "rank ", loan.end->peer, " has not finished reading ", loan.bytes,
                  " bytes of this rank's buffers (is it stopped?): this rank waits no longer");
        loan.end->ring->abandon(loan.number);
        // Regions that are freed from now on must keep their contents.
        base::SharedRegions::ofProcess().keepAll();
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
