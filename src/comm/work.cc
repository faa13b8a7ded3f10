// Waits for asynchronous calls.
#include "rondo/work.h"

#include <algorithm>

#include "comm/communicator_impl.h"
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
  if (run.error && communicator) communicator->rethrow(*run.error);
  if (run.error) throw engine::anew(*run.error);
  for (const auto& part : parts) part->rethrow();
}

namespace {

/// Adds the progress loops of the call or of the group's calls, each once.
void addLoops(const WorkState& state, std::vector<ProgressLoop*>& all) {
  for (const auto& part : state.parts) addLoops(*part, all);
  if (!state.communicator) return;
  ProgressLoop* const loop = &state.communicator->progressLoop();
  if (std::find(all.begin(), all.end(), loop) == all.end()) all.push_back(loop);
}

std::vector<ProgressLoop*> loopsOf(const WorkState& group) {
  std::vector<ProgressLoop*> all;
  addLoops(group, all);
  return all;
}

bool waitUntil(WorkState& state, std::optional<base::Clock::time_point> until) {
  if (state.held)
    throw Error(ErrorCode::invalid_argument,
                title(*state.call) + ": wait() before the call's Group has ended");
  state.attend();
  const auto ended = [&state] { return state.done(); };
  const bool done =
      state.done() || (state.communicator ? state.communicator->progressLoop().run(ended, until)
                                          : ProgressLoop::run(loopsOf(state), ended, until));
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
  if (state_->communicator) {
    state_->communicator->progressLoop().tryProgress();
  } else {
    for (comm::ProgressLoop* one : comm::loopsOf(*state_)) one->tryProgress();
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
    std::vector<comm::ProgressLoop*> loops;
    for (const Work& work : works) {
      work.state_->attend();
      comm::addLoops(*work.state_, loops);
    }
    if (loops.empty()) return std::nullopt;
    comm::ProgressLoop::run(loops, [&] { return first() != works.end() || stop.load(); });
  }
  const auto found = first();
  if (found == works.end()) return std::nullopt;
  return static_cast<std::size_t>(found - works.begin());
}

} // namespace rondo
