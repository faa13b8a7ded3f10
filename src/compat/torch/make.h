// Templates that turn a call of torch into a call of Rondo: blocking or not, alone or coalesced.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "compat/torch/backend.h"
#include "compat/torch/copies.h"
#include "compat/torch/streams.h"
#include "compat/torch/tensors.h"

namespace rondo::compat {

using Type = c10d::OpType;

/// The name of a call that the program makes. If the call throws, the destructor abandons this
/// thread's open region, because torch then does not call endCoalescing().
class CallName {
 public:
  explicit CallName(const char* name) : name_(name) {}
  ~CallName();
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;
  operator const char*() const { return name_; } // NOLINT(google-explicit-constructor)

 private:
  const char* const name_;
  const int exceptions_ = std::uncaught_exceptions();
};

[[noreturn]] void refuse(const char* call, const std::string& why);

inline void require(bool right, const char* call, const char* why) {
  if (!right) refuse(call, why);
}

/// The device of all tensors of a call. Throws ValueError if they are on different devices.
at::Device deviceOf(const CallInfo& info);

/// Begins an event if a profiler is active. Returns whether it did.
bool profile(CallInfo& info);

/// A call that was started.
struct Begun {
  rondo::Work work;
  Messages messages = {};
};

template <class Now, class Begin>
WorkPointer Backend::make(CallInfo info, const Now& now, const Begin& begin) {
  const at::Device device = deviceOf(info);
  const std::shared_ptr<Member> member = memberOn(device, info.name);
  Communicator& at = member->communicator;
  const std::shared_ptr<Region> region = Region::current();
  const bool at_once = device.is_cpu() && !later(info), waits = !info.async;
  const char* const name = info.name;
  if (region)
    for (const Tensors* tensors : {&info.outputs, &info.inputs})
      region->tensors.insert(region->tensors.end(), tensors->begin(), tensors->end());
  const bool profiled = profile(info);
  const std::shared_ptr<AfterCall> after = info.after;
  auto work = c10::make_intrusive<Work>(member, std::move(info), ++sequence_, region);
  try {
    if (at_once) {
      now(at);
      if (after) after->run(true);
    } else {
      const auto stream = currentStream(device);
      std::unique_lock<std::mutex> one_thread;
      if (stream) {
        one_thread = std::unique_lock(member->stream_mutex);
        at.setStream(toStream(*stream));
      }
      Begun begun = begin(at);
      if (after && stream && !region)
        after->run(true); // queues copies on the stream, after the call
      if (region) region->add(member, stream, after, begun.messages);
      const Pending pending(std::move(begun.work), std::move(begun.messages), after);
      member->calls.add(pending);
      work->started(pending, stream);
      // Without this, the event would end only when the program waits, which it may do late.
      if (profiled && !region && !stream) pending.whenDone(member->completer, [] {});
    }
  } catch (const Error& error) {
    if (after) after->run(false);
    member->raise(name, error);
  }
  if (!at_once && waits) work->wait();
  return work;
}

template <auto blocking, auto async, class... Arguments>
WorkPointer Backend::run(CallInfo info, const Arguments&... arguments) {
  return make(
      std::move(info), [&](Communicator& at) { (at.*blocking)(arguments...); },
      [&](Communicator& at) { return Begun{(at.*async)(arguments...)}; });
}

inline WorkPointer Backend::run(CallInfo info, const CollectiveCall& call) {
  return make(
      std::move(info), [&](Communicator& at) { at.call(call); },
      [&](Communicator& at) { return Begun{at.callAsync(call)}; });
}

template <class Each>
WorkPointer Backend::runTogether(CallInfo info, const Each& each) {
  const auto record = [&](Communicator& at, Group& group) {
    try {
      each(at);
    } catch (...) {
      group.drop(); // the destructor would make the calls before the one that is refused
      throw;
    }
  };
  return make(
      std::move(info),
      [&](Communicator& at) {
        Group group;
        record(at, group);
        group.end();
      },
      [&](Communicator& at) {
        Group group;
        record(at, group);
        return Begun{group.start()};
      });
}

} // namespace rondo::compat
