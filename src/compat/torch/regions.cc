// Checks and profiling of all calls, and coalescing (calls that start together).
#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "compat/torch/make.h"
#include "compat/torch/profile.h"

namespace rondo::compat {

namespace {

/// Number of open coalescing regions of this thread, in all groups.
thread_local int regions = 0;

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

bool Backend::later(const CallInfo& info) const {
  return info.async || info.timeout > kNoTimeout || regions > 0;
}

void Backend::startCoalescing() {
  memberOn(at::kCPU, "coalescing");
  TORCH_CHECK(!region_, "rondo: calls of this group are being coalesced already");
  region_ = std::make_shared<Region>();
  ++regions;
}

WorkPointer Backend::endCoalescing() {
  TORCH_CHECK(region_, "rondo: no calls of this group are being coalesced");
  const auto region = std::exchange(region_, nullptr);
  --regions;
  CallInfo info{.type = Type::COALESCED, .name = "coalesced calls"};
  auto work = c10::make_intrusive<Work>(member_, std::move(info), ++sequence_, region);
  region->open = false;
  try {
    rondo::Work begun = region->group.start();
    if (region->stream)
      region->after->run(true); // queues the copies on the stream, after the calls
    const Pending pending(std::move(begun), region->messages, region->after);
    work->started(pending, region->stream);
    if (region->profiled && !region->stream) pending.whenDone(member_->completer, [] {});
  } catch (const Error& error) {
    region->after->run(false);
    member_->raise("coalesced calls", error);
  }
  return work;
}

} // namespace rondo::compat
