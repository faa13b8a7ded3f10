// The calling thread's recorded calls: recording, starting, dropping.
#include "comm/pending_group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "comm/communicator_impl.h"

namespace rondo::comm {

namespace {
thread_local std::vector<std::shared_ptr<WorkState>> held;
} // namespace

constinit thread_local int PendingGroup::depth_ = 0;

std::shared_ptr<WorkState> PendingGroup::add(CommunicatorImpl& communicator, const Call& call) {
  auto state = std::make_shared<WorkState>();
  state->communicator = communicator.shared_from_this();
  state->call = std::make_unique<const KeptCall>(call);
  state->stream = communicator.stream();
  state->held = true;
  held.push_back(state);
  return state;
}

void PendingGroup::enter() { ++depth_; }

std::shared_ptr<WorkState> PendingGroup::leave(bool attended) {
  if (--depth_ > 0) return nullptr;
  auto all = std::make_shared<WorkState>();
  all->parts.swap(held);
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
  if (--depth_ > 0) return;
  for (const std::shared_ptr<WorkState>& call : std::exchange(held, {})) {
    call->run.error = std::make_unique<const Error>(ErrorCode::aborted,
                                                    title(*call->call) + ": its Group was dropped");
    call->held.store(false, std::memory_order_release);
    call->run.done.store(true, std::memory_order_release);
  }
}

double PendingGroup::predict() {
  std::map<const CommunicatorImpl*, double> seconds;
  for (const std::shared_ptr<WorkState>& call : held)
    seconds[call->communicator.get()] += call->communicator->planner().predict(*call->call);
  double longest = 0;
  for (const auto& [communicator, sum] : seconds) longest = std::max(longest, sum);
  return longest;
}

} // namespace rondo::comm
