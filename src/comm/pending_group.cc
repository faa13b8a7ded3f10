// The calling thread's recorded calls: recording, starting, dropping.
#include "comm/pending_group.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator_impl.h"

namespace rondo::comm {

namespace {
using Calls = std::vector<std::shared_ptr<WorkState>>;

/// The thread's recorded calls; null: there are none. Not an object with a destructor, since a
/// Group may be destroyed after the other objects of its thread.
constinit thread_local Calls* held = nullptr;

Calls take() {
  const std::unique_ptr<Calls> taken(std::exchange(held, nullptr));
  return taken ? std::move(*taken) : Calls();
}

/// Ends a recorded call that is not started.
void giveUp(WorkState& call, const std::string& why) {
  call.endAtOnce(Error(ErrorCode::aborted, title(*call.call) + ": " + why));
  call.held.store(false, std::memory_order_release);
}

/// Ends all recorded calls of the thread.
void giveUpAll(const std::string& why) {
  for (const std::shared_ptr<WorkState>& call : take()) giveUp(*call, why);
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

struct PendingGroup::AtThreadEnd {
  ~AtThreadEnd() {
    depth_ = 0;
    giveUpAll("its thread ended inside the Group");
  }
};

std::shared_ptr<WorkState> PendingGroup::add(CommunicatorImpl& communicator, const Call& call,
                                             const plan::Choice* named) {
  thread_local AtThreadEnd at_thread_end;
  auto state = std::make_shared<WorkState>();
  state->communicator = communicator.weak_from_this();
  state->call = std::make_unique<const KeptCall>(call);
  if (named) state->named = *named;
  state->stream = communicator.stream();
  state->held = true;
  if (!held) held = new Calls;
  held->push_back(state);
  return state;
}

std::size_t PendingGroup::enter() {
  ++depth_;
  return held ? held->size() : 0;
}

std::shared_ptr<WorkState> PendingGroup::leave(bool attended) {
  if (depth_ == 0 || --depth_ > 0 || !held) return nullptr;
  auto all = std::make_shared<WorkState>();
  all->parts = take();
  for (const Share& share : sharesOf(all->parts))
    share.communicator->startHeld(share.calls, attended);
  return all;
}

void PendingGroup::drop() {
  if (depth_ > 0 && --depth_ == 0) giveUpAll("its Group was dropped");
}

void PendingGroup::drop(std::size_t begin) {
  while (held && held->size() > begin) {
    giveUp(*held->back(), "an exception left its Group");
    held->pop_back();
  }
  drop();
}

double PendingGroup::predict() {
  if (!held) return 0;
  std::map<const CommunicatorImpl*, double> seconds;
  for (const std::shared_ptr<WorkState>& call : *held)
    if (const auto communicator = call->communicator.lock())
      seconds[communicator.get()] +=
          communicator->planner().predict(*call->call, call->namedOrNull());
  double longest = 0;
  for (const auto& [communicator, sum] : seconds) longest = std::max(longest, sum);
  return longest;
}

} // namespace rondo::comm
