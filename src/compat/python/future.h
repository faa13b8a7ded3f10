// Future: a call in flight, with the arrays that it uses.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "compat/python/array.h"
#include "compat/python/errors.h"
#include "rondo/work.h"

namespace rondo::compat::python {

/// What must live until a call is done.
struct Held {
  Array input, output;
  nb::object result = nb::none(); ///< what the call returns to Python
};

/// Refers to a call that may still be in flight. The arrays live at least as long as the call,
/// also if the program drops the future. Results outlive the communicator. In a forked child all
/// functions refuse, and the future is dropped with its arrays. Functions need the interpreter's
/// lock.
class Future {
 public:
  Future(Work work, Held held, const CallInfo& info);
  ~Future();
  Future(Future&&) = default;
  Future& operator=(Future&&) = delete;

  /// Waits, at most for `seconds`. Returns whether the call is done; raises its error. A signal
  /// whose handler raises ends the wait, and not the call.
  bool wait(std::optional<double> seconds);
  bool done();
  /// Does what wait() does and returns the call's result; raises TimeoutError.
  nb::object result(std::optional<double> seconds);

  /// Drops the arrays of futures that the program dropped and whose calls are done by now.
  static void reap();

 private:
  void requireSameProcess() const;

  Work work_;
  Held held_;
  CallInfo info_;
  unsigned forks_;
};

} // namespace rondo::compat::python
