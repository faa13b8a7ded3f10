// Taking the bias away.
#include "comm/biased_mutex.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "base/log.h"

namespace rondo::comm {

namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

/// Whether the system call is there: neither an old kernel nor a filter refuses it.
bool available() {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

} // namespace

BiasedMutex::BiasedMutex() {
  if (!available()) owner_ = kEverybody;
}

BiasedMutex::Way BiasedMutex::takeBias() {
  mutex_.lock();
  if (owner_.exchange(kEverybody) != kEverybody) {
    // From here on the owner sees that, or we see it inside.
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
      // It was there when the process began: nobody can tell any more who is inside.
      base::log(LogLevel::error, "membarrier is refused all of a sudden");
      std::abort();
    }
    while (inside_.load(std::memory_order_acquire)) sched_yield();
  }
  return Way::plain;
}

} // namespace rondo::comm
