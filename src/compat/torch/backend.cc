// The group: how it is made, split, ended, and what goes for all of its calls.
#include "compat/torch/backend.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "compat/torch/meeting.h"
#include "rondo/buffer.h"

namespace rondo::compat {

namespace {

std::chrono::milliseconds within(std::chrono::milliseconds timeout) {
  return std::clamp(timeout, rondo::Options::kShortestTimeout, rondo::Options::kLongestTimeout);
}

std::shared_ptr<Member> join(c10d::Store& store, int rank, int size,
                             const Backend::Options& options) {
  rondo::Options own = options.rondo;
  own.timeout = own.init_timeout = within(options.timeout);
  const auto& ranks = options.global_ranks_in_group;
  Teller teller{rank, size, std::vector<int>(ranks.begin(), ranks.end())};
  try {
    return std::make_shared<Member>(meet(store, rank, size, own), teller);
  } catch (const Error& error) {
    teller.raise("init", error);
  }
}

/// Those that a group is to have which is made from another's options.
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
      member_(join(*store, rank, size, *options_)) {
  init();
}

Backend::~Backend() = default;

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  try {
    comm("set_timeout").setTimeout(within(timeout));
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
    auto buffer = std::make_shared<Buffer>(comm("allocate").allocate(bytes));
    return at::from_blob(
        buffer->data(), {size}, [buffer](void*) mutable { buffer.reset(); }, options);
  } catch (const Error& error) {
    member_->raise("allocate", error);
  }
}

void Backend::abort() {
  if (member_)
    member_->communicator.abort("rank " + std::to_string(getRank()) + " aborted the group");
}

void Backend::shutdown() {
  if (member_) failed_ = member_->failed;
  member_.reset();
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool /*wait_all_ranks*/) {
  c10d::BarrierOptions now = opts;
  now.asyncOp = false;
  barrier(now);
}

Communicator& Backend::comm(const char* call) {
  if (!member_)
    C10_THROW_ERROR(DistBackendError,
                    std::string("rondo: ") + call + ": the group has been shut down");
  return member_->communicator;
}

} // namespace rondo::compat
