// Rests between polls, and turns a signal into the end of a call.
#include "compat/python/wait.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
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

/// The thread that ends the interpreter; before, no thread.
std::atomic<std::thread::id> interpreter_ends_on{};

/// signal.signal(); never destroyed, since Python may destroy its objects after the statics.
nb::handle set_handler;
} // namespace

unsigned forks() {
  static std::atomic<unsigned> count{0};
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  static_cast<void>(registered);
  return count;
}

void findSignals() {
  set_handler = nb::object(nb::module_::import_("signal").attr("signal")).release();
}

bool onMainThread() {
  // On other threads signal() raises ValueError before it looks at the handler; on this one it
  // raises TypeError, since None is no handler. threading.main_thread() would not do: until Python
  // 3.13 it is the thread that imported `threading`.
  thread_local const bool main = [] {
    const nb::error_scope saved;
    const auto refused = nb::steal(PyObject_CallFunction(set_handler.ptr(), "iO", SIGINT, Py_None));
    const bool looked = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    PyErr_Clear();
    return looked;
  }();
  return main;
}

Unlocked::~Unlocked() {
  const std::thread::id ends_on = interpreter_ends_on;
  if (ends_on != std::thread::id() && ends_on != std::this_thread::get_id())
    while (true) ::pause();
  PyEval_RestoreThread(thread_);
}

void Unlocked::interpreterEnds() { interpreter_ends_on = std::this_thread::get_id(); }

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
  if (!comm_ || *interrupt_ || last_ - looked_ < kSignals) return;
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
