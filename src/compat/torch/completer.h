// Waits for asynchronous calls for which no thread of the program waits.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "rondo/work.h"

namespace rondo::compat {

/// Threads that exist from the first such call on: futures must complete by themselves, and tensors
/// must live until their call has ended although the program dropped its Work. A caller of
/// Work::wait() needs no such thread. Any thread may call.
///
/// A callback may wait for any call or future, also for one whose callback is to run here: another
/// thread then goes on, at once where the callback itself added a call, else after a moment. So
/// there are as many threads as callbacks ever waited at the same time, and one. Callbacks that do
/// not wait run one after the other, in the order in which their calls ended.
class Completer {
 public:
  /// Called on one of the threads when the call has ended, well or badly.
  using Done = std::function<void()>;

  Completer();
  /// Returns when all calls have ended, each in time since each has a deadline, and their callbacks
  /// too. In a callback, and in a forked child, which has no such threads, it returns at once.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  void add(rondo::Work work, Done done);

 private:
  struct State;

  std::shared_ptr<State> state_; ///< of the threads too, one of which may end this object
  const pid_t process_;
};

} // namespace rondo::compat
