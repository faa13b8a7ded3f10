// How a thread waits for its peers: spin, then yield, then sleep.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.h"

namespace rondo::comm {

/// The tuning constants of waiting. Measured on 2 cores (KVM): a yield costs 0.2 us, a futex wake
/// across cores 34 us. Senders therefore never wake a sleeping receiver for data; it polls by
/// itself.
struct Patience {
  /// Polls before the first yield. A poll takes 20 to 50 ns on mapped channels, so this is about 50
  /// us, longer than any step between two running ranks.
  static constexpr std::uint32_t kSpins = 1500;
  /// With more ranks than processors the peer probably waits for this processor.
  static constexpr std::uint32_t kOversubscribedSpins = 0;
  /// Yields before the program's own poll function is called: small calls end before that.
  static constexpr std::uint32_t kYieldsAlone = 32;
  /// Yields before the first sleep: 1 to 3 ms while no other thread wants the processor.
  static constexpr std::uint32_t kYields = 5000;
  static constexpr std::chrono::microseconds kFirstSleep{50};
  static constexpr std::chrono::microseconds kLongestSleep{1000};
  /// Sleep of a helper thread whose process has one processor. Time that the helper takes is lost
  /// to the program, and the program polls itself when a gradient is ready. (A training step of an
  /// MLP, 2 ranks with a core each, shared memory: 1.36 ms with the usual spinning, 1.20 ms with
  /// this sleep. No difference for a CNN, for TCP, and over 1 Gb/s.)
  static constexpr std::chrono::microseconds kAsideSleep{1000};
  /// Yields to a thread that wants the mutex, before this thread takes it again: about one wake-up.
  static constexpr int kHandOverYields = 200;
  /// Interval between two inspections for stalled calls.
  static constexpr std::chrono::milliseconds kInspect{10};
  /// A gap between inspections that is longer than this shows that the process was stopped, or got
  /// no processor time.
  static constexpr std::chrono::milliseconds kStarved{500};
  /// A call that has been stalled for longer is reported to the control plane.
  static constexpr std::chrono::milliseconds kStall{50};
  /// A stalled Send or Recv is reported again at this interval, since its peer may have left.
  static constexpr std::chrono::milliseconds kStallAgain{400};
  /// With Options::patient: after the death of a process, a call that is stalled for this long
  /// ends. The time suffices for a rank that is alive but gets no processor.
  static constexpr std::chrono::seconds kBereaved{10};
};

/// The back-off of one wait. Call reset() whenever something moved.
class Backoff {
 public:
  explicit Backoff(bool oversubscribed)
      : spins_(oversubscribed ? Patience::kOversubscribedSpins : Patience::kSpins) {}
  /// For a thread that shares its only processor with the program: sleeps at once, for kAsideSleep.
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

  /// True: poll again at once. False: the spins are used up, call rest().
  bool spinning() {
    if (looks_ >= spins_) return false;
    ++looks_;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return true;
  }

  /// Yields the processor or sleeps. A sleep ends early when `word` is no longer zero.
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
