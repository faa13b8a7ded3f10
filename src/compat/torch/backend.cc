// Creates, splits, merges, aborts and shuts down groups, and holds their timeouts and errors.
#include "compat/torch/backend.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "compat/torch/meeting.h"
#include "rondo/buffer.h"

namespace rondo::compat {

namespace {

std::chrono::milliseconds within(std::chrono::milliseconds timeout) {
  return std::clamp(timeout, rondo::Options::kShortestTimeout, rondo::Options::kLongestTimeout);
}

/// This process's rank of a group in host memory. Collective.
std::shared_ptr<Member> memberOf(Communicator communicator, const Teller& teller,
                                 std::chrono::milliseconds timeout) {
  auto member = std::make_shared<Member>(std::move(communicator), teller, timeout);
  if (teller.size == 1) return member;
  auto tagged = member->communicator.split(0, teller.rank);
  member->messenger.emplace(member->communicator, std::move(*tagged));
  member->messenger->setTimeout(timeout);
  return member;
}

/// Creates this process's rank for tensors on a device (-1: host memory). Collective.
std::shared_ptr<Member> join(c10d::Store& store, int rank, int size,
                             const Backend::Options& options, int device) {
  rondo::Options own = options.rondo;
  own.device = device;
  own.timeout = own.init_timeout = within(options.timeout);
  const auto& ranks = options.global_ranks_in_group;
  Teller teller{rank, size, std::vector<int>(ranks.begin(), ranks.end())};
  try {
    Communicator met = meet(store, rank, size, own);
    if (device < 0) return memberOf(std::move(met), teller, own.timeout);
    return std::make_shared<Member>(std::move(met), teller, std::chrono::milliseconds(0));
  } catch (const Error& error) {
    teller.raise("init", error);
  }
}

/// Returns the options for a group that is created from another group's options.
c10::intrusive_ptr<Backend::Options> inherit(
    const c10::intrusive_ptr<c10d::Backend::Options>& given) {
  auto made = c10::make_intrusive<Backend::Options>(given->timeout);
  if (const auto* own = dynamic_cast<Backend::Options*>(given.get())) made->rondo = own->rondo;
  made->group_name = given->group_name;
  made->global_ranks_in_group = given->global_ranks_in_group;
  return made;
}

} // namespace

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      store_(store),
      member_(join(*store, rank, size, *options_, -1)) {
  init();
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<Options> options,
                 std::shared_ptr<Member> member)
    : c10d::Backend(member->teller->rank, member->teller->size),
      options_(std::move(options)),
      store_(store),
      member_(std::move(member)) {
  init();
}

Backend::~Backend() { leave(region_); }

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  const std::shared_ptr<Member> member = memberOn(at::kCPU, "set_timeout");
  try {
    member->setTimeout(within(timeout));
  } catch (const Error& error) {
    member->raise("set_timeout", error);
  }
}

c10::intrusive_ptr<c10d::Backend> Backend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto found = std::find(ranks.begin(), ranks.end(), getRank());
  if (found == ranks.end()) return nullptr;
  return c10::make_intrusive<Backend>(store, static_cast<int>(found - ranks.begin()),
                                      static_cast<int>(ranks.size()), inherit(opts));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts, const int& rank, const int& size) {
  return c10::make_intrusive<Backend>(store, rank, size, inherit(opts));
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(
    const std::vector<int64_t>& ranks_to_exclude, int shrink_flags,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts_override) {
  constexpr int kAbort = 1; // torch.distributed's SHRINK_ABORT
  const std::shared_ptr<Member> member = memberOn(at::kCPU, "shrink_group");
  if (shrink_flags & kAbort) abort();
  const std::vector<int> excluded(ranks_to_exclude.begin(), ranks_to_exclude.end());
  auto options = inherit(opts_override ? opts_override : getBackendOptions());
  // For later communicators on devices: ranks of the old group may still use the old keys.
  std::string prefix = "shrunk without";
  for (const int one : excluded) prefix += " " + std::to_string(one);
  Teller teller{0, 0, {}};
  for (int rank = 0; rank < getSize(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) != excluded.end()) continue;
    if (rank == getRank()) teller.rank = teller.size;
    ++teller.size;
    const std::vector<int>& global = member->teller->global_ranks;
    teller.global_ranks.push_back(global.empty() ? rank : global[static_cast<std::size_t>(rank)]);
  }
  options->global_ranks_in_group.assign(teller.global_ranks.begin(), teller.global_ranks.end());
  try {
    auto made = memberOf(member->communicator.shrink(excluded), teller, within(options->timeout));
    return c10::make_intrusive<Backend>(c10::make_intrusive<c10d::PrefixStore>(prefix, store_),
                                        std::move(options), std::move(made));
  } catch (const Error& error) {
    member->raise("shrink_group", error);
  }
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  const std::shared_ptr<Member> member = memberOn(at::kCPU, "allocate");
  try {
    auto buffer = std::make_shared<Buffer>(member->communicator.allocate(bytes));
    return at::from_blob(
        buffer->data(), {size}, [buffer](void*) mutable { buffer.reset(); }, options);
  } catch (const Error& error) {
    member->raise("allocate", error);
  }
}

c10d::ErrorType Backend::getError() {
  const std::lock_guard lock(mutex_);
  if (!member_) return failed_;
  std::optional<Error> failure = member_->communicator.failure();
  for (const auto& [index, member] : on_devices_)
    if (!failure) failure = member->communicator.failure();
  if (!failure) return c10d::ErrorType::SUCCESS;
  return failure->code() == ErrorCode::timeout ? c10d::ErrorType::TIMEOUT
                                               : c10d::ErrorType::COMM_ERROR;
}

void Backend::abort(const std::string& reason) {
  std::unique_lock lock(mutex_);
  const auto member = member_;
  const auto on_devices = on_devices_;
  lock.unlock();
  for (const auto& [index, one] : on_devices) one->communicator.abort(reason);
  if (member && member->messenger) member->messenger->abort(reason);
  else if (member) member->communicator.abort(reason);
}

void Backend::shutdown() {
  const c10d::ErrorType failed = getError();
  std::unique_lock lock(mutex_);
  failed_ = failed;
  // The region is destroyed first, the member last.
  const auto member = std::exchange(member_, nullptr);
  const auto on_devices = std::exchange(on_devices_, {});
  const auto region = std::exchange(region_, nullptr);
  lock.unlock();
  leave(region);
}

std::shared_ptr<Member> Backend::memberOn(at::Device device, const char* call) {
  std::unique_lock lock(mutex_);
  if (!member_)
    C10_THROW_ERROR(DistBackendError,
                    std::string("rondo: ") + call + ": the group has been shut down");
  if (device.is_cpu()) return member_;
  if (!device.is_cuda())
    C10_THROW_ERROR(NotImplementedError, std::string("rondo: ") + call + ": a tensor on " +
                                             device.str() + "; only cpu and cuda are taken");
  const auto known = [&]() -> std::shared_ptr<Member> {
    const auto found = on_devices_.find(device.index());
    return found == on_devices_.end() ? nullptr : found->second;
  };
  if (auto member = known()) return member;
  lock.unlock();
  const std::lock_guard meeting(meeting_mutex_);
  lock.lock();
  if (auto member = known()) return member; // another thread has met them meanwhile
  lock.unlock();
  auto made = join(*store_, getRank(), getSize(), *options_, device.index());
  lock.lock();
  return on_devices_[device.index()] = std::move(made);
}

} // namespace rondo::compat
