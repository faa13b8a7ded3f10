// The progress loop: a thread that waits makes progress on the communicator's calls.
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

/// Makes progress on one communicator's calls, on the calling thread. Owns the communicator's
/// mutex; a waiting thread releases it whenever another thread wants it. Any thread, except where a
/// function needs the lock.
class ProgressLoop {
 public:
  class Lock;

  /// `oversubscribed`: there are more ranks than processors.
  ProgressLoop(engine::Engine& engine, FailureState& failure, bootstrap::ProgressBoard& board,
               int rank, bool oversubscribed)
      : engine_(engine),
        failure_(failure),
        board_(board),
        oversubscribed_(oversubscribed),
        helper_(*this, rank) {}

  /// Needs the lock. Returns true if anything moved, ended or failed.
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
  /// Needs the lock. As Engine::runAtOnce(), but an error fails the communicator.
  bool runAtOnce(engine::Run& run, int queue, std::size_t done) {
    try {
      if (!engine_.runAtOnce(run, queue, done)) return false;
      board_.completed.store(engine_.completed(), std::memory_order_relaxed);
    } catch (const std::exception&) {
      failure_.failWithCurrentException();
    }
    return true;
  }
  /// Polls once. Does nothing if another thread has the mutex, since that thread polls.
  void tryProgress();
  /// Without the lock: if other threads wait for the mutex, lets one of them take it.
  void giveWay() const {
    if (contenders_.load(std::memory_order_relaxed) > 0) yieldMutex();
  }

  /// Polls all `loops` until done() returns true or `until` has passed. Returns whether it is done.
  template <class Done>
  static bool run(std::span<ProgressLoop* const> loops, const Done& done,
                  std::optional<base::Clock::time_point> until = {});
  /// The same for one loop.
  template <class Done>
  bool run(const Done& done, std::optional<base::Clock::time_point> until = {}) {
    ProgressLoop* const self[] = {this};
    return run(std::span<ProgressLoop* const>(self), done, until);
  }

  /// A waiting thread calls `guest` now and then instead of sleeping. Set it before the first call.
  void whileWaiting(std::function<void()> guest) { guest_ = std::move(guest); }
  HelperThread& helper() { return helper_; }
  /// The next thread that takes the mutex takes it cheaply from then on. No other thread may use
  /// this object meanwhile.
  void forgetThread() { mutex_.forgetOwner(); }

 private:
  friend class HelperThread;
  class Waiting;

  /// Looks for stalled calls. `last`: the caller's previous inspection in this wait, if any.
  void inspect(base::Clock::time_point now, std::optional<base::Clock::time_point> last);
  /// Yields until no other thread waits for the mutex.
  void yieldMutex() const;
  static void rest(std::span<ProgressLoop* const> loops, Backoff& backoff, std::uint32_t& yields);

  engine::Engine& engine_;
  FailureState& failure_;
  bootstrap::ProgressBoard& board_;
  const bool oversubscribed_;
  BiasedMutex mutex_;              ///< guards the engine and the call cache
  std::atomic<int> contenders_{0}; ///< threads that wait for the mutex
  std::function<void()> guest_;    ///< empty: there is none
  HelperThread helper_;            ///< last, so that it ends before the members that it uses
};

/// Holds the mutex. While it waits, the thread that polls under the mutex sees a contender.
class ProgressLoop::Lock {
 public:
  explicit Lock(ProgressLoop& of) : Lock(of, std::try_to_lock) {
    if (held()) return;
    of_.contenders_.fetch_add(1, std::memory_order_relaxed);
    way_ = of_.mutex_.lock();
    of_.contenders_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Not held if another thread has the mutex.
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

/// Pauses the helper threads while this thread waits, unless they have nothing to do.
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

/// Polls per hold of the mutex: enough to make the cost of locking negligible, few enough (some
/// microseconds) for threads that want it.
inline constexpr int kLooksPerHold = 64;

/// Rounds with progress between two reads of the clock.
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
      // Inspect before returning: a program that waits in short portions gets the same deadlines as
      // one that waits once.
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
      // Other calls may move while the one that is waited for is stalled.
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
