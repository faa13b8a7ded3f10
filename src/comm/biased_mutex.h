// A mutex that costs next to nothing for the thread that always takes it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace rondo::comm {

/// Most communicators are used by one thread only. The first thread that locks the mutex owns the
/// bias: it locks and unlocks with plain stores. An ordinary mutex needs an atomic exchange, which
/// waits until the message just published has reached the peer's core (0.1 us). The first other
/// thread that locks revokes the bias for good, with a system call that makes all threads' stores
/// visible (membarrier). After that this is a std::mutex. Writes before an unlock are visible after
/// the next lock.
class BiasedMutex {
 public:
  /// How the mutex was locked. Pass it to unlock().
  enum class Way { not_locked, biased, plain };

  BiasedMutex();

  /// Returns Way::not_locked when another thread holds the mutex. Blocks only while it revokes the
  /// bias, at most once in the life of the mutex, until the owner has left.
  Way tryLock() {
    const std::uintptr_t self = thisThread();
    std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    if (owner == kNobody && owner_.compare_exchange_strong(owner, self)) owner = self;
    if (owner == self) {
      inside_.store(true, std::memory_order_relaxed);
      // Orders only the compiler; the revoker's membarrier orders the processors.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (owner_.load(std::memory_order_relaxed) == self) return Way::biased;
      inside_.store(false, std::memory_order_release);
      owner = kEverybody;
    }
    if (owner != kEverybody) return takeBias();
    return mutex_.try_lock() ? Way::plain : Way::not_locked;
  }
  Way lock() {
    const Way way = tryLock();
    if (way != Way::not_locked) return way;
    mutex_.lock();
    return Way::plain;
  }
  void unlock(Way way) {
    if (way == Way::biased) {
      inside_.store(false, std::memory_order_release);
    } else {
      mutex_.unlock();
    }
  }

  /// As if no thread had locked it. No other thread may use the mutex meanwhile.
  void forgetOwner() {
    if (owner_.load() != kEverybody) owner_.store(kNobody);
  }

 private:
  static constexpr std::uintptr_t kNobody = 0;
  static constexpr std::uintptr_t kEverybody = ~kNobody;

  Way takeBias();
  /// The address of a thread-local variable would do, too. But in a shared library each access to
  /// one calls a function, or needs memory that the C library may lack when a program loads the
  /// library with dlopen().
  static std::uintptr_t thisThread() { return (std::uintptr_t)pthread_self(); }

  std::mutex mutex_;
  std::atomic<std::uintptr_t> owner_{kNobody}; ///< thisThread(); kEverybody: bias revoked
  std::atomic<bool> inside_{false};            ///< the owner of the bias holds the mutex
};

} // namespace rondo::comm
