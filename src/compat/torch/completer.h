// Waits for asynchronous calls for which no thread of the program waits.
#pragma once

#include <ATen/core/ivalue.h>
#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rondo/work.h"

namespace rondo::compat {

/// A thread that exists from the first such call on: futures must complete by themselves, and
/// tensors must live until their call has ended although the program dropped its Work. Who calls
/// Work::wait() needs no such thread. Any thread may call.
class Completer {
 public:
  /// `done` is called on the thread when the call has ended, well or badly, in the order of add().
  using Done = std::function<void()>;

  Completer();
  /// Returns when all calls have ended, each in time since each has a deadline. In a forked child,
  /// which has no such thread, at once.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  void add(rondo::Work work, Done done);

 private:
  struct State;
  static void main(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_; ///< of the thread too, which may be the one that ends this object
  std::thread thread_;
  pid_t process_;
};

} // namespace rondo::compat
