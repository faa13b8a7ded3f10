// Collects the calls of a thread's group, and runs them when the group ends.
#include "compat/nccl/group.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "compat/nccl/cuda_driver.h"

namespace rondo::compat::nccl {

namespace {

struct Making {
  ncclComm* handle;
  bool blocking, joins;
};

/// A rank's calls in the group.
struct CallsOf {
  std::shared_ptr<Member> member;
  std::vector<Work> works;
};

struct State {
  State() = default;
  ~State() {
    if (!made) recorder.drop();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int depth = 0;
  std::vector<Making> making;
  std::vector<CallsOf> calls;
  std::vector<cudaStream_t> streams; ///< of calls on host memory; the group's end waits for them
  std::optional<Refusal> failed;
  Group recorder;
  bool made = false; ///< the calls were made; otherwise they are dropped
};
/// The thread's group; null: none is open. The program may call while its thread ends, so this is
/// no object with a destructor.
constinit thread_local State* state = nullptr;

/// Drops the group of a thread that ends inside it.
struct AtThreadEnd {
  ~AtThreadEnd() { delete std::exchange(state, nullptr); }
};

/// Leaves a group. Returns its state if it was the outermost one, null otherwise.
std::unique_ptr<State> leave() {
  if (!state) refuse(ncclInvalidUsage, "there is no ncclGroupStart() to this");
  if (--state->depth > 0) return nullptr;
  return std::unique_ptr<State>(std::exchange(state, nullptr));
}

/// Finishes the communicators that were created in the group. An error of one communicator is the
/// error of the group, and none of the group's calls are made. If the group has an error already,
/// aborts the creations, since ranks that got the same error may never take part.
ncclResult_t finishMaking(State& group) {
  ncclResult_t result = ncclSuccess;
  if (group.failed) {
    const std::string why = "the group in which it was created has failed: " + group.failed->text;
    for (const Making& one : group.making)
      if (one.joins) one.handle->abortMaking({group.failed->result, why});
    return result;
  }
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

/// Makes the calls. Each communicator gets its own calls, so that it has only their errors.
ncclResult_t makeCalls(State& group) {
  for (cudaStream_t stream : group.streams) CudaDriver::get().synchronize(stream);
  group.made = true;
  const auto waits = [](const CallsOf& one) { return one.member->waits(); };
  if (std::all_of(group.calls.begin(), group.calls.end(), waits)) {
    group.recorder.end();
    return ncclSuccess;
  }
  group.recorder.start();
  ncclResult_t result = ncclSuccess;
  std::optional<Refusal> failed;
  for (CallsOf& one : group.calls) {
    try {
      if (one.member->started(one.works) == ncclInProgress) result = ncclInProgress;
    } catch (...) {
      if (!failed) failed = currentRefusal();
    }
  }
  if (failed) throw *failed;
  return result;
}

} // namespace

bool Groups::open() { return state != nullptr; }

void Groups::start() {
  thread_local AtThreadEnd at_thread_end;
  if (!state) state = new State;
  ++state->depth;
}

ncclResult_t Groups::end() {
  const std::unique_ptr<State> group = leave();
  if (!group) return ncclSuccess;
  const ncclResult_t made = finishMaking(*group);
  if (group->failed) throw *group->failed;
  const ncclResult_t called = makeCalls(*group);
  return made != ncclSuccess ? made : called;
}

float Groups::simulate() {
  const std::unique_ptr<State> group = leave();
  if (!group) return 0;
  finishMaking(*group);
  if (group->failed) throw *group->failed;
  const auto time = group->recorder.predict();
  return std::chrono::duration<float, std::micro>(time).count();
}

void Groups::add(ncclComm& making, bool blocking, bool joins) {
  state->making.push_back({&making, blocking, joins});
}

void Groups::add(const std::shared_ptr<Member>& member, Work work, cudaStream_t stream) {
  const auto known = std::find_if(state->calls.begin(), state->calls.end(),
                                  [&](const CallsOf& one) { return one.member == member; });
  if (known != state->calls.end()) known->works.push_back(std::move(work));
  else state->calls.push_back({member, {std::move(work)}});
  auto& streams = state->streams;
  if (stream && member->device < 0 &&
      std::find(streams.begin(), streams.end(), stream) == streams.end())
    streams.push_back(stream);
}

void Groups::fail(const Refusal& refusal) {
  if (open() && !state->failed) state->failed = refusal;
}

void noteInGroup(const Refusal& refusal) { Groups::fail(refusal); }

} // namespace rondo::compat::nccl
