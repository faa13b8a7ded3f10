// How a thread of Python waits for a call: it rests like Rondo's own threads, and notices signals.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>

#include "compat/python/errors.h"
#include "rondo/communicator.h"

namespace rondo::compat::python {

/// Releases the interpreter's lock for the lifetime of the object. When the interpreter has begun
/// to end, other threads than the main one stop here for ever: until Python 3.14, taking the lock
/// then would end the thread in the middle of C++ code, and so the process.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  /// From now on the interpreter ends. Needs the lock.
  static void interpreterEnds();

 private:
  PyThreadState* const thread_;
};

/// A call that this thread waits for, from before it begins until it has ended. With `comm`, rest()
/// runs the handlers of signals on the main thread, as often as kSignals says; if a handler raises
/// (KeyboardInterrupt), the communicator is aborted, so that the call ends on all ranks. `comm` may
/// be null.
class Wait {
 public:
  /// Interval at which a waiting main thread looks for signals.
  static constexpr std::chrono::milliseconds kSignals{20};

  Wait(Communicator* comm, const CallInfo& info) : comm_(comm), info_(info), outer_(current) {
    current = this;
  }
  ~Wait() { current = outer_; }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// Throws what a signal's handler raised, if one did. Needs the interpreter's lock.
  void rethrowInterrupt() const {
    if (interrupt_) throw nb::python_error(*interrupt_);
  }

  /// For Communicator::whileWaiting(): called in place of sleeping. Yields at first, sleeps once
  /// nothing has moved for some time, and looks for signals.
  static void rest();

 private:
  using Clock = std::chrono::steady_clock;

  void restHere();
  void lookForSignals();

  static thread_local Wait* current;

  Communicator* const comm_;
  const CallInfo& info_;
  Wait* const outer_;
  Clock::time_point begin_{}, quiet_since_{}, last_{}, looked_{};
  std::unique_ptr<nb::python_error> interrupt_;
};

} // namespace rondo::compat::python
