// Sleeping until a word of memory changes, within a process or between processes that share it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

namespace rondo::base {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
              std::atomic<std::uint32_t>::is_always_lock_free);

enum class FutexScope { process, shared };

/// Sleeps while `word` equals `expected`, until a wake or for `limit`. May return early without a
/// reason, so check the word again. Returns false if the limit has passed. Gives no memory
/// ordering; load the word with acquire afterwards.
inline bool futexWait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::chrono::nanoseconds limit, FutexScope scope = FutexScope::process) {
  limit = std::max(limit, std::chrono::nanoseconds::zero());
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  const int operation = FUTEX_WAIT | (scope == FutexScope::process ? FUTEX_PRIVATE_FLAG : 0);
  const long result = ::syscall(SYS_futex, &word, operation, expected, &relative, nullptr, 0);
  return !(result != 0 && errno == ETIMEDOUT);
}

/// Wakes up to `waiters` threads that sleep on the word. Change the word first.
inline void futexWake(const std::atomic<std::uint32_t>& word,
                      int waiters = std::numeric_limits<int>::max(),
                      FutexScope scope = FutexScope::process) {
  const int operation = FUTEX_WAKE | (scope == FutexScope::process ? FUTEX_PRIVATE_FLAG : 0);
  ::syscall(SYS_futex, &word, operation, waiters, nullptr, nullptr, 0);
}

} // namespace rondo::base
