// Waits for calls in flight, and keeps arrays of dropped futures alive.
#include "compat/python/future.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "compat/python/wait.h"

namespace rondo::compat::python {

namespace {

struct Dropped {
  Work work;
  Held held;
  unsigned forks;
};

/// Calls in flight whose futures the program dropped. Guarded by the interpreter's lock; never
/// destroyed, since calls may be in flight when the process ends.
std::vector<Dropped>& dropped() {
  static auto* const all = new std::vector<Dropped>;
  return *all;
}

} // namespace

Future::Future(Work work, Held held, const CallInfo& info)
    : work_(std::move(work)), held_(std::move(held)), info_(info), forks_(forks()) {}

Future::~Future() {
  if (forks_ == forks() && !work_.test())
    dropped().push_back({std::move(work_), std::move(held_), forks_});
}

void Future::reap() {
  std::vector<Dropped>& all = dropped();
  if (all.empty()) return;
  // The end of an array may run code of Python, which may drop futures: only once `all` is whole.
  const auto ended = std::partition(all.begin(), all.end(), [](Dropped& one) {
    return one.forks == forks() && !one.work.test();
  });
  const std::vector<Dropped> ending(std::make_move_iterator(ended),
                                    std::make_move_iterator(all.end()));
  all.erase(ended, all.end());
}

void Future::requireSameProcess() const {
  if (forks_ != forks())
    refuse(info_.name, "this process is a fork of the one that began the call; it cannot wait");
}

bool Future::done() {
  requireSameProcess();
  return work_.test();
}

bool Future::wait(std::optional<double> seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 1e9; // seconds; arithmetic with it cannot overflow
  requireSameProcess();
  if (seconds && !(*seconds >= 0)) refuse(info_.name, "wait: the timeout is negative");
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         std::min(seconds.value_or(kLongest), kLongest)));
  const Wait rests(info_);
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
