// Implements communicator handles, from creation until after the communicator's end.
#include "compat/nccl/handle.h"

#include <chrono>
#include <set>
#include <thread>
#include <utility>

using rondo::compat::nccl::Config;
using rondo::compat::nccl::currentRefusal;
using rondo::compat::nccl::Refusal;
using rondo::compat::nccl::refuse;

namespace {

/// Time between two polls of a communicator that is being created. Creation takes milliseconds.
constexpr std::chrono::microseconds kLook{50};

struct All {
  std::mutex mutex;
  std::set<const ncclComm*> handles;
};
All& all() {
  static auto& one = *new All; // never destroyed: programs may call while the process exits
  return one;
}

} // namespace

ncclComm* ncclComm::make(Making making, const Config& config, int device) {
  auto* const handle = new ncclComm;
  handle->making_ = std::move(making);
  handle->config_ = config;
  handle->device_ = device;
  const std::lock_guard lock(all().mutex);
  all().handles.insert(handle);
  return handle;
}

ncclComm& ncclComm::known(ncclComm_t handle) {
  // Caches the last handle: most threads use only one, and a handle stays valid forever.
  thread_local ncclComm_t last = nullptr;
  if (handle && handle == last) [[likely]]
    return *handle;
  if (!handle) refuse(ncclInvalidArgument, "the communicator is null");
  const std::lock_guard lock(all().mutex);
  if (!all().handles.contains(handle))
    refuse(ncclInvalidArgument, "this is no communicator's handle");
  last = handle;
  return *handle;
}

bool ncclComm::settle() {
  if (!making_) return true;
  const auto ready = [](const auto& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (!std::visit(ready, *making_)) return false;
  try {
    std::visit(
        [this](auto& future) {
          std::optional<rondo::Communicator> made = future.get();
          if (made) member_ = std::make_shared<Member>(std::move(*made), config_, device_);
        },
        *making_);
  } catch (...) {
    failed_ = currentRefusal();
  }
  making_.reset();
  return true;
}

std::shared_ptr<ncclComm::Member> ncclComm::memberLocked() {
  if (ended_) refuse(ncclInvalidArgument, "the communicator was destroyed before");
  if (making_ && !settle())
    refuse(ncclInvalidArgument,
           "the communicator is not made yet: ncclCommGetAsyncError() tells "
           "when it is");
  if (failed_) throw *failed_;
  if (!member_) refuse(ncclInvalidArgument, "this rank is not in the communicator");
  return member_;
}

std::shared_ptr<ncclComm::Member> ncclComm::member() {
  const std::lock_guard lock(mutex_);
  return memberLocked();
}

std::shared_ptr<ncclComm::Member> ncclComm::active() {
  const std::lock_guard lock(mutex_);
  auto member = memberLocked();
  if (finalized_) refuse(ncclInvalidUsage, "the communicator was finalized before");
  return member;
}

void ncclComm::await() {
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::lock_guard lock(mutex_);
    if (!settle()) continue;
    if (failed_) throw *failed_;
    return;
  }
}

std::optional<Refusal> ncclComm::made() {
  const std::lock_guard lock(mutex_);
  if (!settle()) return std::nullopt;
  return failed_ ? *failed_ : Refusal{ncclSuccess, ""};
}

Refusal ncclComm::state() {
  std::shared_ptr<Member> member;
  bool ends = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) refuse(ncclInvalidArgument, "the communicator was destroyed before");
    if (!settle()) return {ncclInProgress, "the communicator is not made yet"};
    if (failed_) return *failed_;
    if (!member_) return {ncclSuccess, ""};
    member = member_;
    ends = finalized_;
  }
  // On a GPU the stream says when a call is done.
  const bool busy = member->device < 0 || ends ? member->busy() : member->hasChildren();
  if (const auto error = member->error()) return *error;
  if (busy) return {ncclInProgress, "calls are on their way"};
  return {ncclSuccess, ""};
}

void ncclComm::finalize() {
  const std::lock_guard lock(mutex_);
  const auto member = memberLocked();
  if (member->revoked()) refuse(ncclInvalidUsage, "the communicator was revoked before");
  if (std::exchange(finalized_, true))
    refuse(ncclInvalidArgument, "the communicator was finalized before"); // as in NCCL
}

void ncclComm::abortMaking(const Refusal& why) {
  const std::lock_guard lock(mutex_);
  if (!settle()) abortMakingLocked(why);
}

void ncclComm::abortMakingLocked(const Refusal& why) {
  Making making = std::move(*making_);
  making_.reset();
  failed_ = why;
  std::thread([making = std::move(making), why = why.text]() mutable {
    try {
      std::visit(
          [&why](auto& future) {
            std::optional<rondo::Communicator> made = future.get();
            if (made) made->abort(why);
          },
          making);
    } catch (...) {
      // It could not be created, so there is nothing to abort.
    }
  }).detach();
}

std::shared_ptr<ncclComm::Member> ncclComm::end(bool abort) {
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::lock_guard lock(mutex_);
    if (!ended_ && !settle()) {
      if (!abort) continue;
      abortMakingLocked(
          {ncclInvalidUsage, "ncclCommAbort() ended the creation of the communicator"});
    }
    if (std::exchange(ended_, true))
      refuse(ncclInvalidArgument, "the communicator was destroyed before");
    return std::exchange(member_, nullptr);
  }
}
