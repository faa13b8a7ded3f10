// Waits for calls in flight, and keeps arrays of dropped futures alive.
#include "compat/python/future.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "compat/python/wait.h"

namespace rondo::compat::python {

namespace {

/// Calls in flight whose futures the program dropped. Guarded by the interpreter's lock; never
/// destroyed, since calls may be in flight when the process ends.
std::vector<std::pair<Work, Held>>& dropped() {
  static auto* const works = new std::vector<std::pair<Work, Held>>;
  return *works;
}

} // namespace

Future::Future(Work work, Held held, const CallInfo& info)
    : work_(std::move(work)), held_(std::move(held)), info_(info) {}

Future::~Future() {
  if (!work_.test()) dropped().emplace_back(std::move(work_), std::move(held_));
}

void Future::reap() {
  if (!dropped().empty()) std::erase_if(dropped(), [](auto& one) { return one.first.test(); });
}

bool Future::done() { return work_.test(); }

bool Future::wait(std::optional<double> seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 1e9; // seconds; arithmetic with it cannot overflow
  if (seconds && !(*seconds >= 0)) refuse(info_.name, "wait: the timeout is negative");
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         std::min(seconds.value_or(kLongest), kLongest)));
  const Wait rests(nullptr, info_);
  while (true) {
    const auto left = until - Clock::now();
    bool done = false;
    try {
      const Unlocked unlocked;
      done = work_.waitFor(std::clamp<Clock::duration>(left, {}, Wait::kSignals));
    } catch (const Error& error) {
      raise(error, info_);
    }
    if (done) {
      held_.input = {};
      held_.output = {};
      return true;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (Clock::now() >= until) return false;
  }
}

nb::object Future::result(std::optional<double> seconds) {
  if (wait(seconds)) return held_.result;
  PyErr_SetString(PyExc_TimeoutError, (info_.text() + " is still in flight").c_str());
  throw nb::python_error();
}

} // namespace rondo::compat::python
