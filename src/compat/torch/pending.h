// A call in flight, with what is to be done when it has ended.
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

/// Is used as a rondo::Work: it is done when that and all messages are, and AfterCall::run() has
/// been called. Copies refer to the same call. Any thread may call.
class Pending {
 public:
  /// Done.
  Pending() = default;
  Pending(rondo::Work work, Messages messages, std::shared_ptr<AfterCall> after)
      : work_(std::move(work)), messages_(std::move(messages)), after_(std::move(after)) {}

  void wait() { waitFor({}); }
  /// A limit of zero: none but the group's. False: not done yet.
  bool waitFor(std::chrono::milliseconds limit);
  bool test();
  /// Ends receives that are not done, and their group, with Error(timeout).
  void giveUp(std::chrono::milliseconds after);
  /// Calls `done` on a thread of the completer when this is done, well or badly.
  void whenDone(Completer& completer, std::function<void()> done) const;
  /// What a receive says about itself, or null.
  const Message* message() const { return messages_.empty() ? nullptr : messages_.front().get(); }

 private:
  rondo::Work work_;
  Messages messages_;
  std::shared_ptr<AfterCall> after_; ///< null: nothing
};

} // namespace rondo::compat
