// Waits for all parts of a call.
#include "compat/torch/pending.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "compat/torch/interpreter.h"

namespace rondo::compat {

struct Pending::Parts {
  rondo::Work work;
  Messages messages;
  std::shared_ptr<AfterCall> after; ///< null: no work remains
  std::optional<Error> error;       ///< of a call that has been replaced by its result
};

struct Pending::State {
  Parts copy() {
    const std::lock_guard lock(mutex);
    return parts;
  }

  std::mutex mutex;
  Parts parts;
  std::optional<int> sender; ///< of a call that has been replaced by its result
};

Pending::Pending(rondo::Work work, Messages messages, std::shared_ptr<AfterCall> after)
    : state_(std::make_shared<State>()) {
  state_->parts = {std::move(work), std::move(messages), std::move(after), {}};
}

Pending::Pending(const Error& error) : state_(std::make_shared<State>()) {
  state_->parts.error = error;
}

bool Pending::waitFor(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  if (!state_) return true;
  Parts call = state_->copy();
  if (call.error) throw Error(*call.error);
  const auto end = Clock::now() + limit;
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  };
  try {
    if (limit.count() <= 0) {
      call.work.wait();
      for (const auto& message : call.messages) message->wait();
    } else {
      if (!call.work.waitFor(limit)) return false;
      for (const auto& message : call.messages)
        if (!message->waitFor(left())) return false;
      call.work.wait();
    }
  } catch (const Error&) {
    if (call.after) call.after->run(false);
    throw;
  }
  if (call.after) call.after->run(true);
  return true;
}

bool Pending::test() const {
  if (!state_) return true;
  Parts call = state_->copy();
  if (!call.work.test()) return false;
  if (!std::all_of(call.messages.begin(), call.messages.end(),
                   [](const auto& one) { return one->done(); }))
    return false;
  try {
    wait();
  } catch (const Error&) { // the caller's wait() throws it again
  }
  return true;
}

void Pending::giveUp(std::chrono::milliseconds after) const {
  if (!state_) return;
  for (const auto& message : state_->copy().messages) message->giveUp(after);
}

void Pending::whenDone(Completer& completer, std::function<void()> done) const {
  completer.add(state_ ? state_->copy().work : rondo::Work(),
                [self = *this, done = std::move(done)] {
                  try {
                    self.wait();
                  } catch (const Error&) { // done() calls wait() again if it needs the error
                  }
                  done();
                });
}

std::optional<int> Pending::sender() const {
  if (!state_) return std::nullopt;
  const std::lock_guard lock(state_->mutex);
  const Messages& messages = state_->parts.messages;
  return messages.empty() ? state_->sender : messages.front()->from();
}

/// Waits, and replaces the call by its result.
void Pending::settle() const {
  Parts result;
  try {
    wait();
  } catch (const Error& error) {
    result.error = error;
  }
  const auto from = sender();
  const std::lock_guard lock(state_->mutex);
  state_->sender = from;
  std::swap(state_->parts, result);
}

Calls::Calls() : process_(::getpid()) {}

Calls::~Calls() {
  if (::getpid() != process_) return; // in a forked child the calls cannot end
  const WithoutInterpreter threads_that_copy_may_need_it;
  for (const auto& call : all_)
    if (const auto state = call.lock()) Pending(state).settle();
}

void Calls::add(const Pending& call) {
  if (!call.state_) return;
  const std::lock_guard lock(mutex_);
  if (all_.size() >= sweep_at_) {
    std::erase_if(all_, [](const auto& one) { return one.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * all_.size());
  }
  all_.push_back(call.state_);
}

} // namespace rondo::compat
