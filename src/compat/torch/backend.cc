// Creates, splits, merges, aborts and shuts down groups, and holds their timeouts and errors.
#include "compat/torch/backend.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

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

/// Creates this process's rank for tensors on a device (-1: host memory). Collective.
std::shared_ptr<Member> join(c10d::Store& store, int rank, int size,
                             const Backend::Options& options, int device) {
  rondo::Options own = options.rondo;
  own.device = device;
  own.timeout = own.init_timeout = within(options.timeout);
  const auto& ranks = options.global_ranks_in_group;
  Teller teller{rank, size, std::vector<int>(ranks.begin(), ranks.end())};
  try {
    auto member = std::make_shared<Member>(meet(store, rank, size, own), teller);
    if (device < 0 && size > 1) {
      auto tagged = member->communicator.split(0, rank);
      member->messenger.emplace(member->communicator, std::move(*tagged));
      member->messenger->setTimeout(own.timeout);
    }
    return member;
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

Backend::~Backend() = default;

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  try {
    Member& member = *memberOn(at::kCPU, "set_timeout");
    member.communicator.setTimeout(within(timeout));
    if (member.messenger) member.messenger->setTimeout(within(timeout));
  } catch (const Error& error) {
    member_->raise("set_timeout", error);
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

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  try {
    auto buffer =
        std::make_shared<Buffer>(memberOn(at::kCPU, "allocate")->communicator.allocate(bytes));
    return at::from_blob(
        buffer->data(), {size}, [buffer](void*) mutable { buffer.reset(); }, options);
  } catch (const Error& error) {
    member_->raise("allocate", error);
  }
}

c10d::ErrorType Backend::getError() {
  if (!member_) return failed_;
  std::optional<Error> failure = member_->communicator.failure();
  for (const auto& [index, member] : on_devices_)
    if (!failure && member) failure = member->communicator.failure();
  if (!failure) return c10d::ErrorType::SUCCESS;
  return failure->code() == ErrorCode::timeout ? c10d::ErrorType::TIMEOUT
                                               : c10d::ErrorType::COMM_ERROR;
}

void Backend::abort() {
  const std::string reason = "rank " + std::to_string(getRank()) + " aborted the group";
  for (const auto& [index, member] : on_devices_)
    if (member) member->communicator.abort(reason);
  if (member_ && member_->messenger) member_->messenger->abort(reason);
  else if (member_) member_->communicator.abort(reason);
}

void Backend::shutdown() {
  failed_ = getError();
  on_devices_.clear();
  member_.reset();
}

const std::shared_ptr<Member>& Backend::memberOn(at::Device device, const char* call) {
  if (!member_)
    C10_THROW_ERROR(DistBackendError,
                    std::string("rondo: ") + call + ": the group has been shut down");
  if (device.is_cpu()) return member_;
  if (!device.is_cuda())
    C10_THROW_ERROR(NotImplementedError, std::string("rondo: ") + call + ": a tensor on " +
                                             device.str() + "; only cpu and cuda are taken");
  auto& member = on_devices_[device.index()];
  if (!member) member = join(*store_, getRank(), getSize(), *options_, device.index());
  return member;
}

} // namespace rondo::compat
