// Implements profiler events as RecordFunctions that are marked as asynchronous.
#include "compat/torch/profile.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>

#include <string>
#include <string_view>
#include <utility>

namespace rondo::compat {

namespace {

struct Recorded {
  explicit Recorded(const char* call) : title(std::string("rondo:") + call) {}

  const std::string title; ///< `record` refers to it
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
};

} // namespace

std::shared_ptr<ProfilerEvent> ProfilerEvent::begin(const char* call,
                                                    const std::vector<at::Tensor>& inputs) {
  if (!at::hasCallbacks()) return nullptr;
  auto recorded = std::make_shared<Recorded>(call);
  if (!recorded->record.isActive()) return nullptr;
  recorded->record._setAsync();
  const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  recorded->record.before(std::string_view(recorded->title), &values);
  // The profiler's state belongs to the thread that begins the event. Another thread may end it.
  return std::shared_ptr<ProfilerEvent>(
      new ProfilerEvent(at::wrapPropagateTLSState([recorded] { recorded->record.end(); })));
}

} // namespace rondo::compat
