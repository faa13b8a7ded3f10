// How a thread waits for its peers: spin, then yield, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.h"

namespace rondo::comm {

/// The numbers of waiting, in one place. Measured on 2 cores (KVM): a yield costs 0.2 us, a futex
/// wake across cores 34 us, so nobody is woken for data: sleepers look by themselves.
struct Patience {
  /// Looks before the first yield. A look is 20 to 50 ns on mapped channels: about 50 us, longer
  /// than any step between two running ranks.
  static constexpr std::uint32_t kSpins = 1500;
  /// With more ranks than processors the peer probably waits for this processor.
  static constexpr std::uint32_t kOversubscribedSpins = 0;
  /// Yields before the program's own poll is called: a small call is over by then.
  static constexpr std::uint32_t kYieldsAlone = 32;
  /// Yields before the first sleep: 1 to 3 ms while nobody else wants the processor.
  static constexpr std::uint32_t kYields = 5000;
  static constexpr std::chrono::microseconds kFirstSleep{50};
  static constexpr std::chrono::microseconds kLongestSleep{1000};
  /// Of a helper thread whose process has one processor: what it takes, the program's computing
  /// loses, and the program looks itself when a gradient is ready. (A training step of an MLP, 2
  /// ranks on a core each, shared memory: 1.36 ms when it spins as others do, 1.20 so; a CNN's,
  /// TCP's and those over 1 Gb/s the same.)
  static constexpr std::chrono::microseconds kAsideSleep{1000};
  /// Yields to a thread that wants the mutex before it is taken again: as long as a wake-up takes.
  static constexpr int kHandOverYields = 200;
  /// Between two looks at the clock for what stands still.
  static constexpr std::chrono::milliseconds kInspect{10};
  /// Of a thread that looks much more often: its process was stopped, or has no processor time.
  static constexpr std::chrono::milliseconds kStarved{500};
  /// Calls that stand still longer than this are told to the control plane.
  static constexpr std::chrono::milliseconds kStall{50};
  /// And a Send or Recv, whose peer may have left meanwhile, again and again after so long.
  static constexpr std::chrono::milliseconds kStallAgain{400};
  /// Of patient ranks: calls that stand still for so long after the death of a process end. Long
  /// enough for a rank that is alive and gets no processor.
  static constexpr std::chrono::seconds kBereaved{10};
};

/// One wait. reset() whenever something moved.
class Backoff {
 public:
  explicit Backoff(bool oversubscribed)
      : spins_(oversubscribed ? Patience::kOversubscribedSpins : Patience::kSpins) {}
  /// Of a thread that shares its only processor with the program: sleeps at once, and long.
  static Backoff aside() {
    Backoff backoff(true);
    backoff.yields_ = 0;
    backoff.first_ = backoff.sleep_ = Patience::kAsideSleep;
    return backoff;
  }

  void reset() {
    looks_ = 0;
    sleep_ = first_;
  }

  /// Whether this look should only be followed by another one.
  bool spinning() {
    if (looks_ >= spins_) return false;
    ++looks_;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return true;
  }

  /// Gives the processor away. Sleeps end early when `word` is no longer zero.
  void rest(const std::atomic<std::uint32_t>& word) {
    if (++looks_ < spins_ + yields_) {
      sched_yield();
      return;
    }
    base::futexWait(word, 0, sleep_);
    sleep_ = std::min(sleep_ * 2, Patience::kLongestSleep);
  }

 private:
  std::uint32_t spins_;
  std::uint32_t yields_ = Patience::kYields;
  std::uint32_t looks_ = 0;
  std::chrono::microseconds first_ = Patience::kFirstSleep, sleep_ = first_;
};

} // namespace rondo::comm
