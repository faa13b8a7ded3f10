// Waits for all parts of a call.
#include "compat/torch/pending.h"

#include <algorithm>

#include "rondo/error.h"

namespace rondo::compat {

bool Pending::waitFor(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return std::max(rest, std::chrono::milliseconds(0));
  };
  try {
    if (limit.count() <= 0) {
      work_.wait();
      for (const auto& message : messages_) message->wait();
    } else {
      if (!work_.waitFor(limit)) return false;
      for (const auto& message : messages_)
        if (!message->waitFor(left())) return false;
      work_.wait();
    }
  } catch (const Error&) {
    if (after_) after_->run(false);
    throw;
  }
  if (after_) after_->run(true);
  return true;
}

bool Pending::test() {
  if (!work_.test()) return false;
  if (!std::all_of(messages_.begin(), messages_.end(), [](const auto& one) { return one->done(); }))
    return false;
  try {
    wait();
  } catch (const Error&) { // the caller's wait() throws it again
  }
  return true;
}

void Pending::giveUp(std::chrono::milliseconds after) {
  for (const auto& message : messages_) message->giveUp(after);
}

void Pending::whenDone(Completer& completer, std::function<void()> done) const {
  completer.add(work_, [self = *this, done = std::move(done)]() mutable {
    try {
      self.wait();
    } catch (const Error&) { // done() calls wait() again if it needs the error
    }
    done();
  });
}

} // namespace rondo::compat
