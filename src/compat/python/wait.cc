// Rests between polls, and turns a signal into the end of a call.
#include "compat/python/wait.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

namespace rondo::compat::python {

namespace {
using namespace std::chrono_literals;

/// Rondo calls rest() in a row while nothing moves, and polls for about 50 us before the next row.
/// A gap of this length therefore shows that something moved.
constexpr auto kMoved = 30us;
/// Nothing has moved for this long: the peers compute, so this thread sleeps between polls. Rondo's
/// own threads yield for 1 to 3 ms.
constexpr auto kYields = 2ms;
/// A call that takes this long is not hurt by short sleeps. With more ranks than processors a yield
/// may take longer than kMoved; then only this rule makes the thread sleep.
constexpr auto kLong = 50ms;
constexpr auto kShortSleep = 50us, kLongSleep = 1000us;

std::atomic<bool> interpreter_ends{false};
} // namespace

unsigned forks() {
  static std::atomic<unsigned> count{0};
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
  return count;
}

bool onMainThread() {
  thread_local const bool main = ::syscall(SYS_gettid) == ::getpid();
  return main;
}

Unlocked::~Unlocked() {
  while (interpreter_ends.load() && !onMainThread()) ::pause();
  PyEval_RestoreThread(thread_);
}

void Unlocked::interpreterEnds() { interpreter_ends = true; }

thread_local Wait* Wait::current = nullptr;

void Wait::rest() {
  // A communicator that is being closed.
  if (!current) return std::this_thread::sleep_for(kShortSleep);
  current->restHere();
}

void Wait::restHere() {
  const auto now = Clock::now();
  if (begin_ == Clock::time_point{}) begin_ = looked_ = now;
  if (now - last_ > kMoved) quiet_since_ = now;
  last_ = now;
  const auto quiet = now - quiet_since_;
  if (quiet > kYields)
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>((quiet - kYields) / 8, kShortSleep, kLongSleep));
  else if (now - begin_ > kLong) std::this_thread::sleep_for(kShortSleep);
  else return;
  last_ = Clock::now();
  if (!comm_ || *interrupt_ || last_ - looked_ < kSignals || !onMainThread()) return;
  lookForSignals();
  looked_ = last_ = Clock::now();
}

void Wait::lookForSignals() {
  const nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() == 0) return;
  interrupt_->emplace();
  const Unlocked unlocked;
  comm_->abort("a signal ended " + info_.text());
}

} // namespace rondo::compat::python
