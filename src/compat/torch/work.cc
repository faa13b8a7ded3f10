// Implements Work: waiting for a call, its future and its error.
#include "compat/torch/work.h"

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

#include <utility>

#include "compat/torch/streams.h"
#include "rondo/options.h"

namespace rondo::compat {

void Member::setTimeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (hurries_ == 0) communicator.setTimeout(timeout);
  if (messenger) messenger->setTimeout(timeout);
}

void Member::hurry(const char* call, std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  ++hurries_;
  // The shortest timeout, rather than abort(), gives an error text that names the late ranks.
  if (timeout_.count() > 0) communicator.setTimeout(Options::kShortestTimeout);
  else
    communicator.abort(std::string(call) + " timed out after " + std::to_string(limit.count()) +
                       " ms");
}

void Member::relax() {
  const std::lock_guard lock(mutex_);
  if (--hurries_ == 0 && timeout_.count() > 0) communicator.setTimeout(timeout_);
}

namespace {

/// Hurries groups for the lifetime of the object. It does not keep them from being shut down.
class Hurry {
 public:
  Hurry(const Members& members, const char* call, std::chrono::milliseconds limit) {
    for (const auto& one : members)
      if (const auto member = one.lock()) {
        member->hurry(call, limit);
        hurried_.push_back(one);
      }
  }
  ~Hurry() {
    for (const auto& one : hurried_)
      if (const auto member = one.lock()) member->relax();
  }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

 private:
  std::vector<std::weak_ptr<Member>> hurried_;
};

} // namespace

Work::Work(const std::shared_ptr<Member>& member, CallInfo info, uint64_t sequence,
           std::shared_ptr<Region> region)
    : c10d::Work(member->teller->rank, info.type),
      member_(member),
      teller_(member->teller),
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
  if (coalescing() || event_ || pending().test()) return;
  if (const auto member = member_.lock()) // otherwise all calls have ended
    pending().whenDone(member->completer, [outputs = std::move(info_.outputs),
                                           inputs = std::move(info_.inputs), region = region_] {});
}

bool Work::isCompleted() { return ended(); }

bool Work::isSuccess() const { return ended() && !exception(); }

std::exception_ptr Work::exception() const {
  if (!ended() || !pending().test()) return nullptr;
  try {
    pending().wait();
    return nullptr;
  } catch (const Error& error) {
    return teller_->exception(info_.name, error);
  }
}

int Work::sourceRank() const {
  if (info_.source >= 0) return info_.source;
  const auto sender = work_.sender();
  return sender ? *sender : c10d::Work::sourceRank();
}

void Work::await(std::chrono::milliseconds limit) const {
  const Pending& call = pending();
  if (limit.count() <= 0) return call.wait();
  if (call.waitFor(limit)) return;
  const Hurry hurry(region_ ? region_->members : Members{member_}, info_.name, limit);
  call.giveUp(limit);
  call.wait();
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
    teller_->raise(info_.name, error);
  }
  return true;
}

void Work::abort() {
  if (const auto member = member_.lock())
    member->communicator.abort(std::string("rank ") + std::to_string(teller_->rank) + " aborted " +
                               info_.name);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  TORCH_CHECK(!coalescing(), "rondo: ", info_.name,
              ": take the future of a coalesced call after its coalescing region");
  std::vector<c10::Device> devices;
  if (event_) devices.push_back(event_->device());
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     devices);
  if (event_) { // complete at once: users of the value make their streams wait
    event_->block(*currentStream(event_->device()));
    future_->markCompleted(c10::IValue(info_.outputs));
    return future_;
  }
  auto complete = [future = future_, work = pending(), outputs = info_.outputs,
                   inputs = info_.inputs, region = region_, name = info_.name, teller = teller_] {
    try {
      work.wait();
      future->markCompleted(c10::IValue(outputs));
    } catch (const Error& error) {
      future->setError(teller->exception(name, error));
    }
  };
  const auto member = isCompleted() ? nullptr : member_.lock();
  if (member) pending().whenDone(member->completer, complete);
  else complete(); // also if the group is being shut down, which ends the call
  return future_;
}

} // namespace rondo::compat
