// A mutex that costs the thread which always takes it next to nothing.
#pragma once

#include <atomic>
#include <mutex>

namespace rondo::comm {

/// Most communicators are only ever used by one thread. The first thread that locks it owns the
/// bias: it locks and unlocks by plain stores, where a mutex needs an atomic exchange, which waits
/// until the message just published has reached the peer's core (0.1 us). The first other thread
/// that comes takes the bias away for good, by a system call that makes all threads' stores seen
/// (membarrier), and from then on it is a std::mutex. What happened before an unlock is visible
/// after the next lock.
class BiasedMutex {
 public:
  /// How it was locked; unlock() must be told.
  enum class Way { not_locked, biased, plain };

  BiasedMutex();

  /// Way::not_locked: another thread has it. Only where the bias must be taken away it waits, once,
  /// until its owner has left.
  Way tryLock() {
    const void* const self = token();
    const void* owner = owner_.load(std::memory_order_relaxed);
    if (!owner && owner_.compare_exchange_strong(owner, self)) owner = self;
    if (owner == self) {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(
          std::memory_order_seq_cst); // the revoker's system call does the rest
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

 private:
  static constexpr char kNobodys = 0;
  static constexpr const void* kEverybody = &kNobodys;

  Way takeBias();
  static const void* token() {
    static thread_local char of_this_thread;
    return &of_this_thread;
  }

  std::mutex mutex_;
  std::atomic<const void*> owner_{nullptr}; ///< a thread's token, or kEverybody: no bias any more
  std::atomic<bool> inside_{false};         ///< the owner has it
};

} // namespace rondo::comm
