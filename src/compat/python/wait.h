// How a thread of Python waits for a call: it rests like Rondo's own threads, and notices signals.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "compat/python/errors.h"
#include "rondo/communicator.h"

namespace rondo::compat::python {

/// Releases the interpreter's lock for the lifetime of the object. When a thread has begun to end
/// the interpreter, all others stop here for ever: until Python 3.14, taking the lock then would
/// end the thread in the middle of C++ code, and so the process.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  /// From now on this thread ends the interpreter. Needs the lock.
  static void interpreterEnds();

 private:
  PyThreadState* const thread_;
};

/// Number of forks between the first process and this one. A child must not poll what it inherited.
unsigned forks();
/// Imports what onMainThread() needs; to be called once, before it.
void findSignals();
/// Whether this is the thread on which Python runs the handlers of signals: the one that started
/// the interpreter, which may be any thread of the process. Needs the lock.
bool onMainThread();

/// A call that this thread waits for, from before it begins until it has ended. With `comm`, which
/// is for the main thread, rest() runs the handlers of signals as often as kSignals says; if a
/// handler raises (KeyboardInterrupt), the communicator is aborted, so that the call ends on all
/// ranks, and `interrupt` gets what the handler raised. Both may be null. Needs no lock.
class Wait {
 public:
  /// Interval at which a waiting main thread looks for signals.
  static constexpr std::chrono::milliseconds kSignals{20};

  using Interrupt = std::optional<nb::python_error>;

  explicit Wait(const CallInfo& info, Communicator* comm = nullptr, Interrupt* interrupt = nullptr)
      : comm_(comm), info_(info), outer_(current), interrupt_(interrupt) {
    current = this;
  }
  ~Wait() { current = outer_; }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// For Shims::whileWaiting(): called in place of sleeping. Returns at once at first; later, or if
  /// nothing has moved for some time, sleeps and looks for signals.
  static void rest();

 private:
  using Clock = std::chrono::steady_clock;

  void restHere();
  void lookForSignals();

  static thread_local Wait* current;

  Communicator* const comm_;
  const CallInfo& info_;
  Wait* const outer_;
  Interrupt* const interrupt_;
  Clock::time_point begin_{}, quiet_since_{}, last_{}, looked_{};
};

/// Waits without the GIL for the result of a C++ thread, and throws its errors. A signal whose
/// handler raises ends the wait; the C++ thread continues until its own deadline.
template <class T>
T untilSignal(std::future<T> making) {
  auto made = std::make_unique<std::future<T>>(std::move(making));
  while (true) {
    {
      const Unlocked unlocked;
      if (made->wait_for(Wait::kSignals) == std::future_status::ready) return made->get();
    }
    if (PyErr_CheckSignals() == 0) continue;
    static_cast<void>(made.release()); // its destructor would wait
    throw nb::python_error();
  }
}

} // namespace rondo::compat::python
