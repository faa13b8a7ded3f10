// A call in flight, with the work that remains when it has ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "compat/torch/completer.h"
#include "compat/torch/copies.h"
#include "compat/torch/messages.h"
#include "rondo/work.h"

namespace rondo::compat {

using Messages = std::vector<std::shared_ptr<Message>>;

/// Used like a rondo::Work. It is done when the rondo::Work and all messages are done and
/// AfterCall::run() has returned. Copies refer to the same call. Any thread may call.
class Pending {
 public:
  /// Creates a call that is already done.
  Pending() = default;
  Pending(rondo::Work work, Messages messages, std::shared_ptr<AfterCall> after)
      : work_(std::move(work)), messages_(std::move(messages)), after_(std::move(after)) {}

  void wait() { waitFor({}); }
  /// Waits for at most `limit`; zero: only the group's timeout applies. Returns false if the call
  /// is not done yet.
  bool waitFor(std::chrono::milliseconds limit);
  bool test();
  /// Ends receives that are not done, and the group, with Error(timeout).
  void giveUp(std::chrono::milliseconds after);
  /// Calls `done` on a thread of the completer when this is done, with or without an error.
  void whenDone(Completer& completer, std::function<void()> done) const;
  /// The first receive of the call, or null.
  const Message* message() const { return messages_.empty() ? nullptr : messages_.front().get(); }

 private:
  rondo::Work work_;
  Messages messages_;
  std::shared_ptr<AfterCall> after_; ///< null: no work remains
};

} // namespace rondo::compat
