// The calling thread's recorded calls: recording, starting, dropping.
#include "comm/pending_group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "comm/communicator_impl.h"

namespace rondo::comm {

namespace {
using Calls = std::vector<std::shared_ptr<WorkState>>;

thread_local Calls held;

/// Ends a recorded call that is not started.
void giveUp(WorkState& call, const std::string& why) {
  call.endAtOnce(Error(ErrorCode::aborted, title(*call.call) + ": " + why));
  call.held.store(false, std::memory_order_release);
}

/// One communicator's calls of a group.
struct Share {
  std::shared_ptr<CommunicatorImpl> communicator;
  Calls calls;
};

/// In the order in which all ranks start communicators, whatever order the calls had: a started
/// call may wait for its peers.
std::vector<Share> sharesOf(const Calls& group) {
  std::vector<Share> shares;
  for (const std::shared_ptr<WorkState>& call : group) {
    auto communicator = call->communicator.lock();
    if (!communicator) {
      giveUp(*call, "its communicator was destroyed before the Group ended");
      continue;
    }
    const auto known = std::ranges::find(shares, communicator, &Share::communicator);
    if (known != shares.end()) known->calls.push_back(call);
    else shares.push_back({std::move(communicator), {call}});
  }
  // Several ranks of one communicator may be in this process.
  std::ranges::stable_sort(shares, {}, [](const Share& one) { return one.communicator->id(); });
  return shares;
}

} // namespace

constinit thread_local int PendingGroup::depth_ = 0;

std::shared_ptr<WorkState> PendingGroup::add(CommunicatorImpl& communicator, const Call& call) {
  auto state = std::make_shared<WorkState>();
  state->communicator = communicator.weak_from_this();
  state->call = std::make_unique<const KeptCall>(call);
  state->stream = communicator.stream();
  state->held = true;
  held.push_back(state);
  return state;
}

void PendingGroup::enter() { ++depth_; }

std::shared_ptr<WorkState> PendingGroup::leave(bool attended) {
  if (--depth_ > 0) return nullptr;
  if (held.empty()) return nullptr;
  auto all = std::make_shared<WorkState>();
  all->parts.swap(held);
  for (const Share& share : sharesOf(all->parts))
    share.communicator->startHeld(share.calls, attended);
  return all;
}

void PendingGroup::drop() {
  if (--depth_ > 0) return;
  for (const std::shared_ptr<WorkState>& call : std::exchange(held, {}))
    giveUp(*call, "its Group was dropped");
}

double PendingGroup::predict() {
  std::map<const CommunicatorImpl*, double> seconds;
  for (const std::shared_ptr<WorkState>& call : held)
    if (const auto communicator = call->communicator.lock())
      seconds[communicator.get()] += communicator->planner().predict(*call->call);
  double longest = 0;
  for (const auto& [communicator, sum] : seconds) longest = std::max(longest, sum);
  return longest;
}

} // namespace rondo::comm
