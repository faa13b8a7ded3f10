// The waiting loop: whoever waits makes progress.
#pragma once

#include <sched.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "base/clock.h"
#include "bootstrap/session.h"
#include "comm/backoff.h"
#include "comm/biased_mutex.h"
#include "comm/failure_state.h"
#include "comm/helper_thread.h"
#include "engine/engine.h"

namespace rondo::comm {

/// Moves the engine of one communicator, on whichever thread calls. Has the communicator's mutex,
/// which a waiting thread gives away whenever somebody else wants it. Any thread, but for what is
/// said to need the lock.
class ProgressLoop {
 public:
  class Lock;

  /// `oversubscribed`: ranks share processors.
  ProgressLoop(engine::Engine& engine, FailureState& failure, bootstrap::ProgressBoard& board,
               int rank, bool oversubscribed)
      : engine_(engine),
        failure_(failure),
        board_(board),
        oversubscribed_(oversubscribed),
        helper_(*this, rank) {}

  /// Under the lock. True if anything moved, ended or failed.
  bool poll() {
    if (failure_.ended()) return false;
    if (failure_.pending() && failure_.heed()) return true;
    try {
      if (!engine_.progress()) return false;
      board_.completed.store(engine_.completed(), std::memory_order_relaxed);
    } catch (const std::exception&) {
      failure_.failWithCurrentException();
    }
    return true;
  }
  /// One look; none when another thread has the mutex, and so makes progress.
  void tryProgress();

  /// Makes progress on all of them until `done` says so or `until` passes; whether it is done.
  template <class Done>
  static bool run(std::span<ProgressLoop* const> loops, const Done& done,
                  std::optional<base::Clock::time_point> until = {});
  /// Of one.
  template <class Done>
  bool run(const Done& done, std::optional<base::Clock::time_point> until = {}) {
    ProgressLoop* const self[] = {this};
    return run(std::span<ProgressLoop* const>(self), done, until);
  }

  /// Called now and then by a thread that waits, in place of sleeping; before the first call.
  void whileWaiting(std::function<void()> guest) { guest_ = std::move(guest); }
  HelperThread& helper() { return helper_; }

 private:
  friend class HelperThread;
  class Waiting;

  /// Now and then: looks for what stands still. `last`: the caller's last look of this wait, if
  /// any.
  void inspect(base::Clock::time_point now, std::optional<base::Clock::time_point> last);
  /// Leaves the mutex to those who want it.
  void yieldMutex() const;
  static void rest(std::span<ProgressLoop* const> loops, Backoff& backoff, std::uint32_t& yields);

  engine::Engine& engine_;
  FailureState& failure_;
  bootstrap::ProgressBoard& board_;
  const bool oversubscribed_;
  BiasedMutex mutex_;              ///< guards the engine, and what is known of calls
  std::atomic<int> contenders_{0}; ///< threads that want the mutex
  std::function<void()> guest_;    ///< empty: nobody wants to be called
  HelperThread helper_;            ///< last: it ends before what it uses
};

/// Holds the mutex, and lets the thread that spins in it know that somebody wants it.
class ProgressLoop::Lock {
 public:
  explicit Lock(ProgressLoop& of) : Lock(of, std::try_to_lock) {
    if (held()) return;
    of_.contenders_.fetch_add(1, std::memory_order_relaxed);
    way_ = of_.mutex_.lock();
    of_.contenders_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Not held when another thread has the mutex.
  Lock(ProgressLoop& of, std::try_to_lock_t) : of_(of), way_(of.mutex_.tryLock()) {}
  ~Lock() {
    if (held()) of_.mutex_.unlock(way_);
  }
  bool held() const { return way_ != BiasedMutex::Way::not_locked; }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  ProgressLoop& of_;
  BiasedMutex::Way way_;
};

/// Where the helpers have nothing to do they need not know who waits.
class ProgressLoop::Waiting {
 public:
  explicit Waiting(std::span<ProgressLoop* const> loops) : loops_(loops) {
    for (ProgressLoop* one : loops_) told_ |= one->helper_.needed();
    if (!told_) return;
    for (ProgressLoop* one : loops_) one->helper_.pause();
  }
  ~Waiting() {
    if (!told_) return;
    for (ProgressLoop* one : loops_) one->helper_.resume();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const std::span<ProgressLoop* const> loops_;
  bool told_ = false;
};

/// Looks per hold of the mutex: long enough that taking it costs nothing per look, short enough
/// (some microseconds) for those who want it.
inline constexpr int kLooksPerHold = 64;

/// Rounds in which something moved, per look at the clock.
inline constexpr std::uint32_t kRoundsPerClock = 1024;

template <class Done>
bool ProgressLoop::run(std::span<ProgressLoop* const> loops, const Done& done,
                       std::optional<base::Clock::time_point> until) {
  const Waiting waiting(loops);
  Backoff backoff(loops.front()->oversubscribed_);
  std::uint32_t yields = 0;
  std::optional<base::Clock::time_point> inspected;
  const auto inspect = [&](base::Clock::time_point now) {
    for (ProgressLoop* one : loops) one->inspect(now, inspected);
    inspected = now;
  };
  for (std::uint32_t round = 1;; ++round) {
    bool moved = false;
    for (ProgressLoop* one : loops) {
      const Lock lock(*one);
      for (int look = 0; look < kLooksPerHold; ++look) {
        if (one->poll()) {
          moved = true;
          if (one->engine_.idle()) break;
        } else if (loops.size() > 1 || !backoff.spinning()) {
          break;
        }
        if (one->contenders_.load(std::memory_order_relaxed) > 0) break;
        if (loops.size() == 1 && done()) return true;
      }
    }
    if (done()) return true;
    if (until) {
      // Who waits in short portions has the same deadline as who waits at a stretch.
      const auto now = base::Clock::now();
      if (now >= *until) {
        inspect(now);
        return done();
      }
    }
    for (const ProgressLoop* one : loops) one->yieldMutex();
    if (moved) {
      backoff.reset();
      yields = 0;
      // Something else may move while what is waited for stands still.
      if (round % kRoundsPerClock != 0) continue;
    } else if (backoff.spinning()) {
      continue;
    } else {
      rest(loops, backoff, yields);
    }
    if (const auto now = base::Clock::now(); !inspected || now - *inspected >= Patience::kInspect)
      inspect(now);
  }
}

} // namespace rondo::comm
