// The helper thread of a communicator, and what every waiting thread does when nothing moves.
//
// It exists from the first asynchronous call on, makes progress only while such calls are in flight
// and no thread waits that came after them, lingers for some milliseconds after the last one, then
// sleeps on a futex: a program that starts the next call soon pays no wake-up.
#include <sched.h>

#include <system_error>

#include "base/futex.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "comm/pump.h"

namespace rondo::comm {

namespace {
constexpr std::chrono::microseconds kNap{200};
constexpr int kNaps = 25;
constexpr std::chrono::seconds kSleep{1};
} // namespace

/// Under the lock, with asynchronous work in flight.
void CommunicatorImpl::needHelper() {
  async_active_.store(true);
  if (helper_.joinable()) return wakeHelper();
  const base::NoSignals quiet;
  try {
    helper_ = std::thread([this] { helperMain(); });
  } catch (const std::system_error& error) {
    base::log(LogLevel::warn, "no helper thread (", error.what(),
              "): asynchronous calls move only while somebody waits");
  }
}

void CommunicatorImpl::wakeHelper() {
  // Sequentially consistent against helper_asleep_ = true followed by its look at the flags.
  if (!helper_asleep_.load()) return;
  helper_word_.fetch_add(1);
  base::futexWake(helper_word_);
}

void CommunicatorImpl::helperMain() {
  const base::LogRank in_log(rank_);
  Backoff backoff(crowded_);
  base::Clock::time_point inspected{};
  int naps = 0;
  while (!stopping_.load() && !orphaned_) {
    if (!async_active_.load() || waiting_.load() > 0) {
      nap(naps);
      backoff.reset();
      continue;
    }
    naps = 0;
    bool moved = false;
    {
      const Lock lock(*this);
      moved = poll();
      if (engine_->idle()) async_active_.store(false);
    }
    giveWay();
    if (moved) {
      backoff.reset();
    } else if (!backoff.spinning()) {
      backoff.rest(failed_word_);
      if (const auto now = base::Clock::now(); now - inspected >= Patience::kInspect)
        inspect(inspected = now);
    }
  }
  if (!orphaned_) return;
  helper_.detach();
  delete this;
}

void CommunicatorImpl::nap(int& naps) {
  const std::uint32_t word = helper_word_.load();
  const bool deep = ++naps > kNaps;
  if (deep) helper_asleep_.store(true);
  const bool wanted = stopping_.load() || (async_active_.load() && waiting_.load() == 0);
  if (!wanted) {
    if (deep) {
      base::futexWait(helper_word_, word, kSleep);
    } else {
      base::futexWait(helper_word_, word, kNap);
    }
  }
  if (deep) helper_asleep_.store(false);
}

void CommunicatorImpl::inspect(base::Clock::time_point now) {
  const Lock lock(*this);
  poll(); // a process that was stopped has not looked for long
  if (failure_) return;
  const auto least = std::min<base::Clock::duration>(Patience::kStall, options_.timeout);
  for (const engine::Standing& standing : engine_->standing(now, least)) {
    const bool late = standing.since >= options_.timeout;
    engine::Run& run = *standing.run;
    if (run.told && !late) continue;
    const bootstrap::Stall stall = stallOf(run);
    if (!run.told) session_->stalled(stall);
    run.told = true;
    if (!late) continue;
    return endLate(stall, standing.since);
  }
}

void CommunicatorImpl::giveWay() const {
  for (int i = 0; i < Patience::kHandOverYields; ++i) {
    if (contenders_.load(std::memory_order_relaxed) == 0) return;
    sched_yield();
  }
}

} // namespace rondo::comm
