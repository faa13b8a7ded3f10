// What a waiting thread does when nothing moves.
#include "comm/pump.h"

#include <algorithm>

namespace rondo::comm {

void Pump::poke() {
  if (const Lock lock(*this, std::try_to_lock); lock.held()) poll();
}

void Pump::inspect(base::Clock::time_point now, std::optional<base::Clock::time_point> last) {
  const Lock lock(*this);
  poll(); // a process that was stopped has not looked for long
  if (verdict_.adopted()) return;
  if (last && now - *last >= Patience::kStarved) verdict_.woke(now);
  verdict_.inspect(now);
}

void Pump::giveWay() const {
  for (int i = 0; i < Patience::kHandOverYields; ++i) {
    if (contenders_.load(std::memory_order_relaxed) == 0) return;
    sched_yield();
  }
}

namespace {
/// Whether this thread is in a guest. That may wait in its turn, and is not called meanwhile.
thread_local bool in_guest = false;
} // namespace

/// Where guests live on this thread's patience it must not sleep.
void Pump::rest(std::span<Pump* const> pumps, Backoff& backoff, std::uint32_t& yields) {
  const auto hasGuest = [](const Pump* one) { return one->guest_ != nullptr; };
  if (in_guest || std::none_of(pumps.begin(), pumps.end(), hasGuest))
    return backoff.rest(pumps.front()->verdict_.word());
  if (++yields > Patience::kYieldsAlone) {
    in_guest = true;
    for (const Pump* one : pumps)
      if (one->guest_) one->guest_();
    in_guest = false;
  }
  sched_yield();
}

} // namespace rondo::comm
