// Records the calls of a Group and starts them together.
#include "comm/pending_group.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/log.h"
#include "comm/communicator_impl.h"
#include "rondo/communicator.h"

namespace rondo {

namespace comm {

namespace {
struct State {
  int depth = 0;
  std::vector<std::shared_ptr<WorkState>> calls;
};
thread_local State held;
} // namespace

bool PendingGroup::open() { return held.depth > 0; }

std::shared_ptr<WorkState> PendingGroup::add(CommunicatorImpl& communicator, const Call& call) {
  auto state = std::make_shared<WorkState>();
  state->communicator = communicator.shared_from_this();
  state->call = std::make_unique<const KeptCall>(call);
  state->stream = communicator.stream();
  state->held = true;
  held.calls.push_back(state);
  return state;
}

void PendingGroup::enter() { ++held.depth; }

std::shared_ptr<WorkState> PendingGroup::leave(bool attended) {
  if (--held.depth > 0) return nullptr;
  auto all = std::make_shared<WorkState>();
  all->parts.swap(held.calls);
  std::vector<std::shared_ptr<WorkState>> calls = all->parts;
  // All ranks start communicators in the same order, whatever order the calls had: a started call
  // may wait for its peers.
  std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return a->communicator->id() < b->communicator->id();
  });
  for (auto first = calls.begin(); first != calls.end();) {
    CommunicatorImpl* const communicator = (*first)->communicator.get();
    const auto others = std::stable_partition(first, calls.end(), [&](const auto& call) {
      return call->communicator.get() == communicator;
    });
    communicator->startHeld({first, others}, attended);
    first = others;
  }
  return all;
}

void PendingGroup::drop() {
  if (--held.depth > 0) return;
  for (const std::shared_ptr<WorkState>& call : std::exchange(held.calls, {})) {
    call->run.error = std::make_unique<const Error>(ErrorCode::aborted,
                                                    title(*call->call) + ": its Group was dropped");
    call->held.store(false, std::memory_order_release);
    call->run.done.store(true, std::memory_order_release);
  }
}

double PendingGroup::predict() {
  std::map<const CommunicatorImpl*, double> seconds;
  for (const std::shared_ptr<WorkState>& call : held.calls)
    seconds[call->communicator.get()] += call->communicator->predict(*call->call);
  double longest = 0;
  for (const auto& [communicator, sum] : seconds) longest = std::max(longest, sum);
  return longest;
}

} // namespace comm

Group::Group() { comm::PendingGroup::enter(); }

Group::~Group() {
  if (!open_) return;
  try {
    end();
  } catch (const std::exception& error) {
    base::log(LogLevel::error, "a call of a Group failed: ", error.what());
  }
}

void Group::end() { leave(true).wait(); }

Work Group::start() { return leave(false); }

void Group::drop() {
  if (!open_) throw Error(ErrorCode::invalid_argument, "Group: drop() after the group has ended");
  open_ = false;
  comm::PendingGroup::drop();
}

std::chrono::nanoseconds Group::predict() const {
  return std::chrono::nanoseconds(std::llround(comm::PendingGroup::predict() * 1e9));
}

Work Group::leave(bool attended) {
  if (!open_)
    throw Error(ErrorCode::invalid_argument, "Group: end() or start() after the group has ended");
  open_ = false;
  auto all = comm::PendingGroup::leave(attended);
  return all ? comm::WorkState::handle(std::move(all)) : Work();
}

} // namespace rondo
