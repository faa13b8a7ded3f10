// Completes asynchronous calls that no thread of the program waits for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "rondo/work.h"

namespace rondo::compat {

/// Futures must complete by themselves, and tensors must live until their call has ended even if
/// the program dropped the Work. Threads do both; they exist from the first such call on. A caller
/// of Work::wait() needs no such thread. Any thread may call.
///
/// A callback may wait for any call or future, including one whose callback is to run here. Another
/// thread then takes over: at once if the callback itself added a call, otherwise after a moment.
/// So there is one thread more than the largest number of callbacks that waited at the same time.
/// Callbacks that do not wait run one after the other, in the order in which their calls ended.
class Completer {
 public:
  /// Called on one of the threads when the call has ended, with or without an error.
  using Done = std::function<void()>;

  Completer();
  /// Returns when all calls and their callbacks have ended; each call ends, because each has a
  /// deadline. Returns at once inside a callback, and in a forked child, which has no such threads.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  void add(rondo::Work work, Done done);

 private:
  struct State;

  std::shared_ptr<State> state_; ///< shared with the threads, one of which may destroy this object
  const pid_t process_;
};

} // namespace rondo::compat
