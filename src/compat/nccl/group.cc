// Collects the calls of a thread's group, and runs them when the group ends.
#include "compat/nccl/group.h"

#include <algorithm>
#include <utility>

#include "compat/nccl/cuda_driver.h"

namespace rondo::compat::nccl {

namespace {

struct Making {
  ncclComm* handle;
  bool blocking;
};

struct State {
  std::vector<Making> making;
  std::vector<std::shared_ptr<Member>> members;
  std::vector<cudaStream_t> streams; ///< of calls on host memory; the group's end waits for them
  std::optional<Refusal> failed;
};
thread_local int depth = 0;
thread_local State state;
thread_local std::optional<Group> calls; ///< records the calls

/// Leaves a group. Returns its state if it was the outermost one, nullopt otherwise.
std::optional<State> leave() {
  if (depth == 0) refuse(ncclInvalidUsage, "there is no ncclGroupStart() to this");
  if (--depth > 0) return std::nullopt;
  return std::exchange(state, {});
}

/// Finishes the communicators that were created in the group. An error of one communicator is the
/// error of the group, and none of the group's calls are made.
ncclResult_t finishMaking(State& group) {
  ncclResult_t result = ncclSuccess;
  for (const Making& one : group.making) {
    try {
      if (one.blocking) one.handle->await();
      else result = ncclInProgress;
    } catch (...) {
      if (!group.failed) group.failed = currentRefusal();
    }
  }
  return result;
}

/// Ends the thread's group of calls, also if something throws. Drops calls that were not made.
struct Over {
  bool made = false;
  ~Over() {
    if (!made) calls->drop();
    calls.reset();
  }
};

ncclResult_t makeCalls(State& group) {
  Over over;
  for (cudaStream_t stream : group.streams) CudaDriver::get().synchronize(stream);
  const bool waits = std::all_of(group.members.begin(), group.members.end(),
                                 [](const auto& member) { return member->waits(); });
  over.made = true;
  if (waits) {
    calls->end();
    return ncclSuccess;
  }
  const Work work = calls->start();
  ncclResult_t result = ncclSuccess;
  for (const auto& member : group.members)
    if (member->started(work) == ncclInProgress) result = ncclInProgress;
  return result;
}

} // namespace

bool Groups::open() { return depth > 0; }

void Groups::start() {
  if (depth == 0) calls.emplace();
  ++depth;
}

ncclResult_t Groups::end() {
  std::optional<State> group = leave();
  if (!group) return ncclSuccess;
  const ncclResult_t made = finishMaking(*group);
  if (group->failed) {
    const Over over;
    throw *group->failed;
  }
  const ncclResult_t called = makeCalls(*group);
  return made != ncclSuccess ? made : called;
}

float Groups::simulate() {
  std::optional<State> group = leave();
  if (!group) return 0;
  const Over over;
  finishMaking(*group);
  if (group->failed) throw *group->failed;
  const auto time = calls->predict();
  return std::chrono::duration<float, std::micro>(time).count();
}

void Groups::add(ncclComm& making, bool blocking) { state.making.push_back({&making, blocking}); }

void Groups::add(const std::shared_ptr<Member>& member, cudaStream_t stream) {
  const auto addOnce = [](auto& list, const auto& one) {
    if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
  };
  addOnce(state.members, member);
  if (stream && member->device < 0) addOnce(state.streams, stream);
}

void Groups::fail(const Refusal& refusal) {
  if (open() && !state.failed) state.failed = refusal;
}

void noteInGroup(const Refusal& refusal) { Groups::fail(refusal); }

} // namespace rondo::compat::nccl
