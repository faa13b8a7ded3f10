// Collects the calls of a thread's group, and runs them when the group ends.
#include "compat/nccl/group.h"

#include <algorithm>
#include <utility>

#include "compat/nccl/cuda_driver.h"

namespace rondo::compat::nccl {

namespace {

struct State {
  std::vector<ncclComm*> making;
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

void drop() {
  calls->drop();
  calls.reset();
}

/// Finishes the communicators that were created in the group. Waits for those in blocking mode. An
/// error of one communicator is the error of the group, and none of the group's calls are made.
ncclResult_t finishMaking(State& group) {
  ncclResult_t result = ncclSuccess;
  for (ncclComm* one : group.making) {
    try {
      if (one->blocking()) one->await();
      else result = ncclInProgress;
    } catch (...) {
      if (!group.failed) group.failed = currentRefusal();
    }
  }
  return result;
}

ncclResult_t makeCalls(State& group) {
  for (cudaStream_t stream : group.streams) CudaDriver::get().synchronize(stream);
  const bool waits = std::all_of(group.members.begin(), group.members.end(),
                                 [](const auto& member) { return member->waits(); });
  // The thread's group ends even if one of its calls throws.
  struct Over {
    ~Over() { calls.reset(); }
  } const over;
  if (waits) {
    calls->end();
    return ncclSuccess;
  }
  Work work = calls->start();
  bool blocking = true;
  for (const auto& member : group.members) {
    member->add(work);
    blocking &= member->config.blocking;
  }
  return blocking || work.test() ? ncclSuccess : ncclInProgress;
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
    drop();
    throw *group->failed;
  }
  const ncclResult_t called = makeCalls(*group);
  return made != ncclSuccess ? made : called;
}

float Groups::simulate() {
  std::optional<State> group = leave();
  if (!group) return 0;
  finishMaking(*group);
  const auto time = calls->predict();
  drop();
  if (group->failed) throw *group->failed;
  return std::chrono::duration<float, std::micro>(time).count();
}

void Groups::add(ncclComm& making) { state.making.push_back(&making); }

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
