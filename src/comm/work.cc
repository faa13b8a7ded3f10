// Waits for asynchronous calls.
#include "rondo/work.h"

#include <algorithm>

#include "comm/communicator_impl.h"
#include "comm/work_state.h"
#include "rondo/error.h"

namespace rondo {

namespace comm {

bool WorkState::done() const {
  if (parts.empty()) return run.done.load(std::memory_order_acquire);
  return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part->done(); });
}

void WorkState::attend() {
  run.attended.store(true, std::memory_order_relaxed);
  for (const auto& part : parts) part->attend();
}

void WorkState::rethrow() const {
  if (run.error) {
    if (const auto owner = communicator.lock()) owner->rethrow(*run.error);
    throw engine::anew(*run.error);
  }
  for (const auto& part : parts) part->rethrow();
}

void WorkState::endAtOnce(const Error& error) {
  run.error = std::make_unique<const Error>(engine::anew(error));
  run.done.store(true, std::memory_order_release);
}

namespace {

/// The communicators of calls, each once. Their progress loops live as long as this object.
class Owners {
 public:
  void add(const WorkState& state) {
    for (const auto& part : state.parts) add(*part);
    auto owner = state.communicator.lock();
    if (!owner || std::find(owners_.begin(), owners_.end(), owner) != owners_.end()) return;
    loops_.push_back(&owner->progressLoop());
    owners_.push_back(std::move(owner));
  }
  std::span<ProgressLoop* const> loops() const { return loops_; }

 private:
  std::vector<std::shared_ptr<CommunicatorImpl>> owners_;
  std::vector<ProgressLoop*> loops_;
};

/// Waits for a call that was not done a moment ago.
bool progressUntil(const WorkState& state, std::optional<base::Clock::time_point> until) {
  const auto ended = [&state] { return state.done(); };
  if (state.parts.empty()) {
    if (const auto owner = state.communicator.lock())
      return owner->progressLoop().run(ended, until);
  } else {
    Owners owners;
    owners.add(state);
    if (!owners.loops().empty()) return ProgressLoop::run(owners.loops(), ended, until);
  }
  // The communicators are gone, so their calls have ended.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!state.done())
    throw Error(ErrorCode::invalid_argument,
                "wait() on a call in flight whose communicator was dropped after fork()");
  return true;
}

bool waitUntil(WorkState& state, std::optional<base::Clock::time_point> until) {
  if (state.held)
    throw Error(ErrorCode::invalid_argument,
                title(*state.call) + ": wait() before the call's Group has ended");
  state.attend();
  const bool done = state.done() || progressUntil(state, until);
  if (done) state.rethrow();
  return done;
}

} // namespace

} // namespace comm

void Work::wait() {
  if (state_) comm::waitUntil(*state_, {});
}

bool Work::waitFor(std::chrono::nanoseconds limit) {
  return !state_ || comm::waitUntil(*state_, base::Deadline(limit).at());
}

bool Work::test() {
  if (!state_ || state_->done()) return true;
  if (state_->held) return false;
  if (const auto owner = state_->communicator.lock()) {
    owner->progressLoop().tryProgress();
  } else {
    comm::Owners owners;
    owners.add(*state_);
    for (comm::ProgressLoop* one : owners.loops()) one->tryProgress();
  }
  return state_->done();
}

std::optional<std::size_t> Work::waitAny(std::span<const Work> works,
                                         const std::atomic<bool>& stop) {
  // A call whose Group has not ended counts as ended here, because its wait() throws at once.
  const auto ended = [](const Work& work) {
    return !work.state_ || work.state_->held || work.state_->done();
  };
  const auto first = [&] { return std::find_if(works.begin(), works.end(), ended); };
  if (first() == works.end()) {
    comm::Owners owners;
    for (const Work& work : works) {
      work.state_->attend();
      owners.add(*work.state_);
    }
    if (owners.loops().empty()) // the communicators are gone, so their calls have ended
      std::atomic_thread_fence(std::memory_order_acquire);
    else
      comm::ProgressLoop::run(owners.loops(),
                              [&] { return first() != works.end() || stop.load(); });
  }
  const auto found = first();
  if (found == works.end()) return std::nullopt;
  return static_cast<std::size_t>(found - works.begin());
}

} // namespace rondo
