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
#include "comm/helper_thread.h"
#include "comm/verdict.h"
#include "engine/engine.h"

namespace rondo::comm {

/// Moves the engine of one communicator, on whichever thread calls. Has the communicator's mutex,
/// which a waiting thread gives away whenever somebody else wants it. Any thread, but for what is
/// said to need the lock.
class Pump {
 public:
  class Lock;

  /// `crowded`: ranks share processors.
  Pump(engine::Engine& engine, Verdict& verdict, bootstrap::ProgressBoard& board, int rank,
       bool crowded)
      : engine_(engine),
        verdict_(verdict),
        board_(board),
        crowded_(crowded),
        helper_(*this, rank) {}

  /// Under the lock. True if anything moved, ended or failed.
  bool poll() {
    if (verdict_.adopted()) return false;
    if (verdict_.pending()) {
      verdict_.adopt();
      return true;
    }
    try {
      if (!engine_.progress()) return false;
      board_.completed.store(engine_.completed(), std::memory_order_relaxed);
    } catch (const std::exception&) {
      verdict_.passOn();
    }
    return true;
  }
  /// One look; none when another thread has the mutex, and so makes progress.
  void poke();

  /// Makes progress on all of them until `done` says so or `until` passes; whether it is done.
  template <class Done>
  static bool run(std::span<Pump* const> pumps, const Done& done,
                  std::optional<base::Clock::time_point> until = {});
  /// Of one.
  template <class Done>
  bool run(const Done& done, std::optional<base::Clock::time_point> until = {}) {
    Pump* const self[] = {this};
    return run(std::span<Pump* const>(self), done, until);
  }

  /// Called now and then by a thread that waits, in place of sleeping; before the first call.
  void whileWaiting(std::function<void()> guest) { guest_ = std::move(guest); }
  HelperThread& helper() { return helper_; }

 private:
  friend class HelperThread;
  class Waiting;

  /// Now and then: looks for what stands still. `last`: the caller's last look of this wait, if any.
  void inspect(base::Clock::time_point now, std::optional<base::Clock::time_point> last);
  /// Leaves the mutex to those who want it.
  void giveWay() const;
  static void rest(std::span<Pump* const> pumps, Backoff& backoff, std::uint32_t& yields);

  engine::Engine& engine_;
  Verdict& verdict_;
  bootstrap::ProgressBoard& board_;
  const bool crowded_;
  BiasedMutex mutex_;              ///< guards the engine, and what is known of calls
  std::atomic<int> contenders_{0}; ///< threads that want the mutex
  std::function<void()> guest_;    ///< empty: nobody wants to be called
  HelperThread helper_;            ///< last: it ends before what it uses
};

/// Holds the mutex, and lets the thread that spins in it know that somebody wants it.
class Pump::Lock {
 public:
  explicit Lock(Pump& of) : Lock(of, std::try_to_lock) {
    if (held()) return;
    of_.contenders_.fetch_add(1, std::memory_order_relaxed);
    way_ = of_.mutex_.lock();
    of_.contenders_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Not held when another thread has the mutex.
  Lock(Pump& of, std::try_to_lock_t) : of_(of), way_(of.mutex_.tryLock()) {}
  ~Lock() {
    if (held()) of_.mutex_.unlock(way_);
  }
  bool held() const { return way_ != BiasedMutex::Way::not_locked; }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Pump& of_;
  BiasedMutex::Way way_;
};

/// Where the helpers have nothing to do they need not know who waits.
class Pump::Waiting {
 public:
  explicit Waiting(std::span<Pump* const> pumps) : pumps_(pumps) {
    for (Pump* one : pumps_) told_ |= one->helper_.needed();
    if (!told_) return;
    for (Pump* one : pumps_) one->helper_.standBack();
  }
  ~Waiting() {
    if (!told_) return;
    for (Pump* one : pumps_) one->helper_.standIn();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const std::span<Pump* const> pumps_;
  bool told_ = false;
};

/// Looks per hold of the mutex: long enough that taking it costs nothing per look, short enough
/// (some microseconds) for those who want it.
inline constexpr int kLooksPerHold = 64;

/// Rounds in which something moved, per look at the clock.
inline constexpr std::uint32_t kRoundsPerClock = 1024;

template <class Done>
bool Pump::run(std::span<Pump* const> pumps, const Done& done,
               std::optional<base::Clock::time_point> until) {
  const Waiting waiting(pumps);
  Backoff backoff(pumps.front()->crowded_);
  std::uint32_t yields = 0;
  std::optional<base::Clock::time_point> inspected;
  const auto inspect = [&](base::Clock::time_point now) {
    for (Pump* one : pumps) one->inspect(now, inspected);
    inspected = now;
  };
  for (std::uint32_t round = 1;; ++round) {
    bool moved = false;
    for (Pump* one : pumps) {
      const Lock lock(*one);
      for (int look = 0; look < kLooksPerHold; ++look) {
        if (one->poll()) {
          moved = true;
          if (one->engine_.idle()) break;
        } else if (pumps.size() > 1 || !backoff.spinning()) {
          break;
        }
        if (one->contenders_.load(std::memory_order_relaxed) > 0) break;
        if (pumps.size() == 1 && done()) return true;
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
    for (const Pump* one : pumps) one->giveWay();
    if (moved) {
      backoff.reset();
      yields = 0;
      // Something else may move while what is waited for stands still.
      if (round % kRoundsPerClock != 0) continue;
    } else if (backoff.spinning()) {
      continue;
    } else {
      rest(pumps, backoff, yields);
    }
    if (const auto now = base::Clock::now(); !inspected || now - *inspected >= Patience::kInspect)
      inspect(now);
  }
}

} // namespace rondo::comm
