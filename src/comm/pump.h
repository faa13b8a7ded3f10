// The waiting loop: the caller makes progress.
#pragma once

#include "comm/backoff.h"
#include "comm/communicator_impl.h"

namespace rondo::comm {

/// Holds a communicator's mutex, and lets the thread that spins in it know that somebody wants it.
class CommunicatorImpl::Lock {
 public:
  explicit Lock(CommunicatorImpl& of) : Lock(of, std::try_to_lock) {
    if (held()) return;
    of_.contenders_.fetch_add(1, std::memory_order_relaxed);
    way_ = of_.mutex_.lock();
    of_.contenders_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Not held when another thread has the mutex.
  Lock(CommunicatorImpl& of, std::try_to_lock_t) : of_(of), way_(of.mutex_.tryLock()) {}
  ~Lock() {
    if (held()) of_.mutex_.unlock(way_);
  }
  bool held() const { return way_ != BiasedMutex::Way::not_locked; }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  CommunicatorImpl& of_;
  BiasedMutex::Way way_;
};

/// Looks per hold of the mutex: long enough that taking it costs nothing per look, short enough
/// (some microseconds) for those who want it.
inline constexpr int kLooksPerHold = 64;

/// Rounds in which something moved, per look at the clock.
inline constexpr std::uint32_t kRoundsPerClock = 1024;

template <class Done>
bool CommunicatorImpl::pump(std::span<CommunicatorImpl* const> communicators, const Done& done,
                            std::optional<base::Clock::time_point> until) {
  // Where the helper has nothing to do it need not know who waits.
  struct Waiting {
    std::span<CommunicatorImpl* const> all;
    bool told = false;
    explicit Waiting(std::span<CommunicatorImpl* const> a) : all(a) {
      for (auto* one : all) told |= one->async_active_.load(std::memory_order_relaxed);
      if (!told) return;
      for (auto* one : all) one->waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiting() {
      if (!told) return;
      // Sequentially consistent against the helper's look at the flags before it sleeps.
      for (auto* one : all) {
        one->waiting_.fetch_sub(1);
        if (one->async_active_.load()) one->wakeHelper();
      }
    }
  } const waiting(communicators);

  Backoff backoff(communicators.front()->crowded_);
  bool guests = false; // others live on this thread's patience: it must not sleep
  for (const CommunicatorImpl* one : communicators) guests |= one->while_waiting_ != nullptr;
  std::uint32_t yields = 0;
  base::Clock::time_point inspected{};
  const auto inspect = [&](base::Clock::time_point now) {
    inspected = now;
    for (CommunicatorImpl* one : communicators) one->inspect(now);
  };
  for (std::uint32_t round = 1;; ++round) {
    bool moved = false;
    for (CommunicatorImpl* one : communicators) {
      const Lock lock(*one);
      for (int look = 0; look < kLooksPerHold; ++look) {
        if (one->poll()) {
          moved = true;
          if (one->engine_->idle()) break;
        } else if (communicators.size() > 1 || !backoff.spinning()) {
          break;
        }
        if (one->contenders_.load(std::memory_order_relaxed) > 0) break;
        if (communicators.size() == 1 && done()) return true;
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
    for (CommunicatorImpl* one : communicators) one->giveWay();
    if (moved) {
      backoff.reset();
      yields = 0;
      // Something else may move while what is waited for stands still.
      if (round % kRoundsPerClock != 0) continue;
    } else if (backoff.spinning()) {
      continue;
    } else if (guests) {
      if (++yields > Patience::kYieldsAlone)
        for (CommunicatorImpl* one : communicators)
          if (one->while_waiting_) one->while_waiting_();
      sched_yield();
    } else {
      backoff.rest(communicators.front()->failed_word_);
    }
    if (const auto now = base::Clock::now(); now - inspected >= Patience::kInspect) inspect(now);
  }
}

} // namespace rondo::comm
