// Revokes the bias of a BiasedMutex, by the system call membarrier.
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

/// False when the kernel is too old for the system call, or a filter refuses it.
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
    // From here on the owner sees the revocation, or this thread sees that the owner is inside.
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
      // Registration succeeded, so the call must not fail. Without it the owner's state is unknown.
      base::log(LogLevel::error, "membarrier fails although its registration succeeded");
      std::abort();
    }
    while (inside_.load(std::memory_order_acquire)) sched_yield();
  }
  return Way::plain;
}

} // namespace rondo::comm
