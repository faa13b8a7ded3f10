// A lock that is held for a few microseconds at most, usually by the same thread.
#pragma once

#include <sched.h>

#include <atomic>

namespace rondo::transport::ucx {

/// Does not wake waiting threads: a wake-up across cores costs more than the work under the lock.
class SpinLock {
 public:
  void lock() {
    while (!try_lock()) ::sched_yield();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

} // namespace rondo::transport::ucx
