// Waiting for asynchronous calls.
#include "rondo/work.h"

#include <algorithm>

#include "comm/pump.h"
#include "comm/work_state.h"
#include "rondo/error.h"

namespace rondo {

namespace comm {

bool WorkState::done() const {
  if (communicator) return run.done.load(std::memory_order_acquire);
  return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part->done(); });
}

void WorkState::attend() {
  run.attended.store(true, std::memory_order_relaxed);
  for (const auto& part : parts) part->attend();
}

void WorkState::rethrow() const {
  if (run.error) std::rethrow_exception(run.error);
  for (const auto& part : parts) part->rethrow();
}

namespace {

std::vector<CommunicatorImpl*> communicatorsOf(const WorkState& state) {
  std::vector<CommunicatorImpl*> all;
  if (state.communicator) all.push_back(state.communicator.get());
  for (const auto& part : state.parts)
    if (std::find(all.begin(), all.end(), part->communicator.get()) == all.end())
      all.push_back(part->communicator.get());
  return all;
}

bool waitUntil(WorkState& state, std::optional<base::Clock::time_point> until) {
  if (state.held)
    throw Error(ErrorCode::invalid_argument,
                title(state.call) + ": wait() before the call's Group has ended");
  state.attend();
  const auto all = communicatorsOf(state);
  const bool done = state.done() || CommunicatorImpl::pump(
                                        std::span<CommunicatorImpl* const>(all),
                                        [&state] { return state.done(); }, until);
  if (done) state.rethrow();
  return done;
}

} // namespace

} // namespace comm

void Work::wait() {
  if (state_) comm::waitUntil(*state_, {});
}

bool Work::waitFor(std::chrono::nanoseconds limit) {
  return !state_ || comm::waitUntil(*state_, base::Clock::now() + limit);
}

bool Work::test() {
  if (!state_ || state_->done()) return true;
  if (state_->held) return false;
  for (comm::CommunicatorImpl* one : comm::communicatorsOf(*state_)) one->poke();
  return state_->done();
}

} // namespace rondo
