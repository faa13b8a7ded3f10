// Implements Work: waiting for a call, its future and its error.
#include "compat/torch/work.h"

#include <ATen/core/jit_type.h>

#include <utility>

#include "compat/torch/streams.h"
#include "rondo/options.h"

namespace rondo::compat {

void Region::add(const std::optional<c10::Stream>& call_stream,
                 const std::shared_ptr<AfterCall>& call, const Messages& received) {
  stream = call_stream;
  messages.insert(messages.end(), received.begin(), received.end());
  if (!call) return;
  after->parts.push_back(call);
  profiled |= call->event != nullptr;
}

Work::Work(std::shared_ptr<Member> member, CallInfo info, uint64_t sequence,
           std::shared_ptr<Region> region)
    : c10d::Work(member->teller.rank, info.type),
      member_(std::move(member)),
      info_(std::move(info)),
      sequence_(sequence),
      region_(std::move(region)) {}

void Work::started(Pending work, const std::optional<c10::Stream>& stream) {
  work_ = std::move(work);
  if (!stream || coalescing()) return;
  event_.emplace(stream->device_type());
  event_->record(*stream);
}

Work::~Work() {
  // On a device the memory needs no owner: torch reuses it in the order of the stream, after the
  // call.
  if (coalescing() || event_ || work_.test()) return;
  // The member owns the completer, so the completer's thread must not be the member's last owner.
  work_.whenDone(member_->completer, [outputs = std::move(info_.outputs),
                                      inputs = std::move(info_.inputs), region = region_] {});
}

bool Work::isCompleted() { return ended(); }

bool Work::isSuccess() const { return ended() && !exception(); }

std::exception_ptr Work::exception() const {
  if (!ended() || !work_.test()) return nullptr;
  try {
    work_.wait();
    return nullptr;
  } catch (const Error& error) {
    return member_->teller.exception(info_.name, error);
  }
}

int Work::sourceRank() const {
  if (info_.source >= 0) return info_.source;
  const Message* const message = work_.message();
  return message ? message->from() : c10d::Work::sourceRank();
}

void Work::await(std::chrono::milliseconds limit) const {
  if (limit.count() <= 0) return work_.wait();
  if (work_.waitFor(limit)) return;
  // Ends the communicator, since the call makes no progress. The shortest timeout, rather than
  // abort(), gives an error text that names the late ranks.
  if (event_)
    member_->communicator.abort(std::string(info_.name) + " timed out after " +
                                std::to_string(limit.count()) + " ms");
  else member_->communicator.setTimeout(Options::kShortestTimeout);
  work_.giveUp(limit);
  work_.wait();
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (coalescing()) return true;
  if (event_ && timeout == kNoTimeout) {
    event_->block(*currentStream(event_->device()));
    return true;
  }
  try {
    await(timeout == kNoTimeout ? info_.timeout : timeout);
  } catch (const Error& error) {
    member_->raise(info_.name, error);
  }
  return true;
}

void Work::abort() {
  member_->communicator.abort(std::string("rank ") + std::to_string(member_->teller.rank) +
                              " aborted " + info_.name);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  std::vector<c10::Device> devices;
  if (event_) devices.push_back(event_->device());
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     devices);
  if (event_) { // complete at once: users of the value make their streams wait
    event_->block(*currentStream(event_->device()));
    future_->markCompleted(c10::IValue(info_.outputs));
    return future_;
  }
  auto complete = [future = future_, work = work_, outputs = info_.outputs, inputs = info_.inputs,
                   region = region_, name = info_.name, teller = member_->teller]() mutable {
    try {
      work.wait();
      future->markCompleted(c10::IValue(outputs));
    } catch (const Error& error) {
      future->setError(teller.exception(name, error));
    }
  };
  if (isCompleted()) complete();
  else work_.whenDone(member_->completer, complete);
  return future_;
}

} // namespace rondo::compat
