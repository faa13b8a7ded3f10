// A call in flight, with the work that remains when it has ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "compat/torch/completer.h"
#include "compat/torch/copies.h"
#include "compat/torch/messages.h"
#include "rondo/error.h"
#include "rondo/work.h"

namespace rondo::compat {

using Messages = std::vector<std::shared_ptr<Message>>;

/// Used like a rondo::Work. It is done when the rondo::Work and all messages are done and
/// AfterCall::run() has returned. Copies refer to the same call. Any thread may call.
class Pending {
 public:
  /// Creates a call that is already done.
  Pending() = default;
  Pending(rondo::Work work, Messages messages, std::shared_ptr<AfterCall> after);
  /// Creates a call that has ended with an error.
  explicit Pending(const Error& error);

  void wait() const { waitFor({}); }
  /// Waits for at most `limit`; zero: only the group's timeout applies. Returns false if the call
  /// is not done yet.
  bool waitFor(std::chrono::milliseconds limit) const;
  bool test() const;
  /// Ends receives that are not done, and the group, with Error(timeout).
  void giveUp(std::chrono::milliseconds after) const;
  /// Calls `done` on a thread of the completer when this is done, with or without an error.
  void whenDone(Completer& completer, std::function<void()> done) const;
  /// The sender of the call's first message (kAnyRank until it has arrived). Nothing if the call
  /// has no message.
  std::optional<int> sender() const;

 private:
  friend class Calls;
  struct Parts;
  struct State;
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void settle() const;

  std::shared_ptr<State> state_; ///< null: done
};

/// The calls of one rank. The program may keep the handle of a call that has ended. So the
/// destructor waits until the calls have ended, and replaces each by its result, which frees what
/// it needed.
class Calls {
 public:
  Calls();
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  /// Any thread may call.
  void add(const Pending& call);

 private:
  std::mutex mutex_; ///< guards the next two members
  std::vector<std::weak_ptr<Pending::State>> all_;
  std::size_t sweep_at_ = 64; ///< the size of `all_` at which calls without a handle are removed
  const pid_t process_;
};

} // namespace rondo::compat
