// Groups: calls are noted first, and started together.
#include "comm/group.h"

#include <algorithm>

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

bool Held::open() { return held.depth > 0; }

std::shared_ptr<WorkState> Held::add(CommunicatorImpl& communicator, const Call& call) {
  auto state = std::make_shared<WorkState>();
  state->communicator = communicator.shared_from_this();
  state->call = std::make_unique<const KeptCall>(call);
  state->held = true;
  held.calls.push_back(state);
  return state;
}

void Held::enter() { ++held.depth; }

std::shared_ptr<WorkState> Held::leave(bool attended) {
  if (--held.depth > 0) return nullptr;
  auto all = std::make_shared<WorkState>();
  all->parts.swap(held.calls);
  std::vector<std::shared_ptr<WorkState>> calls = all->parts;
  // On all ranks in the same order, wherever the calls stand: what is started may wait for its
  // peers.
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

} // namespace comm

Group::Group() { comm::Held::enter(); }

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

Work Group::leave(bool attended) {
  if (!open_) throw Error(ErrorCode::invalid_argument, "Group: it has ended before");
  open_ = false;
  auto all = comm::Held::leave(attended);
  return all ? comm::WorkState::handle(std::move(all)) : Work();
}

} // namespace rondo
