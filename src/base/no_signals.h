// Blocks the program's signals on threads of the library.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace rondo::base {

/// While an object lives, this thread takes no signals, and threads that it starts never take any:
/// signals are for the program's own threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

} // namespace rondo::base
