// Checks and profiling of all calls, and coalescing (calls that start together).
#include <c10/util/Exception.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "compat/torch/make.h"
#include "compat/torch/profile.h"

namespace rondo::compat {

namespace {

/// The open region of this thread. The groups that coalesce own it.
thread_local std::weak_ptr<Region> open_region;

} // namespace

void refuse(const char* call, const std::string& why) {
  C10_THROW_ERROR(ValueError, std::string("rondo: ") + call + ": " + why);
}

at::Device deviceOf(const CallInfo& info) {
  std::optional<at::Device> device;
  for (const Tensors* tensors : {&info.outputs, &info.inputs})
    for (const at::Tensor& tensor : *tensors) {
      require(!device || *device == tensor.device(), info.name, "tensors on different devices");
      device = tensor.device();
    }
  return device.value_or(at::kCPU);
}

bool profile(CallInfo& info) {
  const bool any_source = info.type == Type::RECVANYSOURCE;
  auto event = ProfilerEvent::begin(any_source ? "recvAnySource" : info.name,
                                    info.inputs.empty() ? info.outputs : info.inputs);
  if (!event) return false;
  if (!info.after) info.after = std::make_shared<AfterCall>();
  info.after->event = std::move(event);
  return true;
}

CallName::~CallName() {
  if (std::uncaught_exceptions() <= exceptions_) return;
  if (const auto region = Region::current())
    region->abandon("a later call of the coalescing region raised an exception");
}

bool Backend::later(const CallInfo& info) const {
  return info.async || info.timeout > kNoTimeout || Region::current();
}

std::shared_ptr<Region> Region::current() { return open_region.lock(); }

void Region::add(const std::shared_ptr<Member>& member,
                 const std::optional<c10::Stream>& call_stream,
                 const std::shared_ptr<AfterCall>& call, const Messages& received) {
  if (count++ == 0) stream = call_stream;
  else if (stream != call_stream) stream.reset();
  messages.insert(messages.end(), received.begin(), received.end());
  members.insert(member);
  if (!call) return;
  after->parts.push_back(call);
  profiled |= call->event != nullptr;
}

void Region::start() {
  try {
    rondo::Work begun = group.start();
    if (stream) after->run(true); // queues the copies on the stream, after the calls
    close(Pending(std::move(begun), messages, after));
  } catch (const Error& error) {
    after->run(false);
    close(Pending(error));
  }
}

void Region::abandon(const char* why) {
  group.drop();
  for (const auto& message : messages) message->cancel();
  after->run(false);
  close(Pending(Error(ErrorCode::aborted, why)));
}

void Region::close(const Pending& calls) {
  open_region.reset();
  pending = calls;
  for (const auto& one : members)
    if (const auto member = one.lock()) member->calls.add(pending);
  open = false; // after `pending`, which other threads read then
}

void Backend::startCoalescing() {
  memberOn(at::kCPU, "coalescing");
  const std::lock_guard lock(mutex_);
  // An abandoned region may still be there.
  TORCH_CHECK(!region_ || !region_->open, "rondo: calls of this group are being coalesced already");
  region_ = Region::current();
  if (!region_) open_region = region_ = std::make_shared<Region>();
  ++region_->groups;
}

WorkPointer Backend::endCoalescing() {
  const std::shared_ptr<Member> member = memberOn(at::kCPU, "coalescing");
  std::unique_lock lock(mutex_);
  TORCH_CHECK(region_, "rondo: no calls of this group are being coalesced");
  TORCH_CHECK(!region_->open || region_ == Region::current(),
              "rondo: the thread that began to coalesce calls must also end it");
  const auto region = std::exchange(region_, nullptr);
  lock.unlock();
  CallInfo info{.type = Type::COALESCED, .name = "coalesced calls"};
  auto work = c10::make_intrusive<Work>(member, std::move(info), ++sequence_, region);
  if (!region->open || --region->groups > 0) return work;
  region->start();
  work->started({}, region->stream);
  if (region->profiled && !region->stream) region->pending.whenDone(member->completer, [] {});
  return work;
}

void Backend::leave(const std::shared_ptr<Region>& region) {
  if (region && region == Region::current())
    region->abandon("the group was shut down before the end of the coalescing region");
}

} // namespace rondo::compat
