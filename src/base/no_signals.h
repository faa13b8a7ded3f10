// For threads and moments that the program's signals are not to reach.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace rondo::base {

/// While it lives this thread takes no signals, and the threads that it makes never do: the
/// program's signals are for the program's threads.
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
