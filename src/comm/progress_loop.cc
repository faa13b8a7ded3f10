// Polls for progress, inspects stalled calls, and rests when nothing moves.
#include "comm/progress_loop.h"

#include <algorithm>

namespace rondo::comm {

void ProgressLoop::tryProgress() {
  if (const Lock lock(*this, std::try_to_lock); lock.held()) poll();
}

void ProgressLoop::inspect(base::Clock::time_point now,
                           std::optional<base::Clock::time_point> last) {
  const Lock lock(*this);
  poll(); // a process that was stopped has not polled for long
  if (failure_.ended()) return;
  if (last && now - *last >= Patience::kStarved) failure_.woke(now);
  failure_.inspect(now);
}

void ProgressLoop::yieldMutex() const {
  for (int i = 0; i < Patience::kHandOverYields; ++i) {
    if (contenders_.load(std::memory_order_relaxed) == 0) return;
    sched_yield();
  }
}

namespace {
/// Whether this thread runs a guest function. A guest may wait too, and is not called again then.
thread_local bool in_guest = false;
} // namespace

/// A thread with guest functions must not sleep: it calls them instead.
void ProgressLoop::rest(std::span<ProgressLoop* const> loops, Backoff& backoff,
                        std::uint32_t& yields) {
  const auto hasGuest = [](const ProgressLoop* one) { return one->guest_ != nullptr; };
  if (in_guest || std::none_of(loops.begin(), loops.end(), hasGuest)) {
    // The word of a communicator that has failed already would end each rest at once.
    const auto works = [](const ProgressLoop* one) {
      return one->failure_.word().load(std::memory_order_relaxed) == 0;
    };
    const auto first = std::find_if(loops.begin(), loops.end(), works);
    return backoff.rest((first == loops.end() ? loops.front() : *first)->failure_.word());
  }
  if (++yields > Patience::kYieldsAlone) {
    in_guest = true;
    for (const ProgressLoop* one : loops)
      if (one->guest_) one->guest_();
    in_guest = false;
  }
  sched_yield();
}

} // namespace rondo::comm
