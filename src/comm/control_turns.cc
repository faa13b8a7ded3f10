// Waits for the earlier turns. The time limit starts again whenever one of them ends.
#include "comm/control_turns.h"

#include "base/clock.h"
#include "rondo/error.h"

namespace rondo::comm {

void ControlTurns::await(std::uint64_t turn, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  while (ended_ != turn && !stopped_) {
    const std::uint64_t seen = ended_;
    if (!changed_->wait_until(lock, base::Deadline(limit).at(),
                              [&] { return ended_ != seen || stopped_; }))
      throw Error(ErrorCode::timeout,
                  "an earlier split(), exchange() or grow() of this communicator has not ended in "
                  "time");
  }
}

void ControlTurns::end() {
  const std::lock_guard lock(mutex_);
  ++ended_;
  changed_->notify_all();
}

void ControlTurns::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_->notify_all();
}

} // namespace rondo::comm
