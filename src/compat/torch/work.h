// Implements c10d's Work, the handle to a call in flight.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "compat/torch/completer.h"
#include "compat/torch/errors.h"
#include "compat/torch/messages.h"
#include "compat/torch/pending.h"
#include "rondo/communicator.h"
#include "rondo/work.h"

namespace rondo::compat {

/// One rank of a group, with the objects that its calls in flight use.
struct Member {
  Member(Communicator made, Teller known_as)
      : communicator(std::move(made)), teller(std::move(known_as)) {}

  Communicator communicator;
  const Teller teller;
  Completer completer; ///< destroyed before the members above, which it uses
  /// Null on devices and in a group of one rank. Destroyed before the completer, which may wait for
  /// receives.
  std::optional<Messenger> messenger;

  [[noreturn]] void raise(const char* call, const Error& error) { teller.raise(call, error); }
};

/// The calls between startCoalescing() and endCoalescing(), which start together.
struct Region {
  /// Adds a call to the region.
  void add(const std::optional<c10::Stream>& call_stream, const std::shared_ptr<AfterCall>& call,
           const Messages& received);

  std::atomic<bool> open{true};
  Group group;
  std::optional<c10::Stream> stream; ///< the stream of calls on a device
  std::vector<at::Tensor> tensors;   ///< tensors of all calls, kept until the calls have ended
  Messages messages;                 ///< receives that have already begun
  bool profiled = false;             ///< at least one of the calls has a profiler event
  std::shared_ptr<AfterCall> after = std::make_shared<AfterCall>(); ///< for all calls
};

/// Describes a call, except for its Rondo arguments.
struct CallInfo {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";                 ///< torch.distributed's name
  bool async = true;                     ///< false: the call has ended when it returns
  std::chrono::milliseconds timeout{-1}; ///< of this call; negative: the group's timeout
  std::vector<at::Tensor> outputs = {};  ///< the value of the call's future
  std::vector<at::Tensor> inputs = {};   ///< other tensors to keep until the call has ended
  std::shared_ptr<AfterCall> after = {}; ///< the work that remains when it has ended, or null
  int source = -1;                       ///< the sender, for a receive
};

/// The work of one call. wait() makes progress on the caller's thread. If the program drops the
/// Work or asks for a future, a Completer waits instead. Any thread may call.
class Work : public c10d::Work {
 public:
  /// Creates a Work of a call that is not in flight: it counts as complete. started() makes it
  /// pending. `region`: the coalescing region that the call belongs to, or null.
  Work(std::shared_ptr<Member> member, CallInfo info, uint64_t sequence,
       std::shared_ptr<Region> region = nullptr);
  ~Work() override;
  /// Sets the call in flight. `stream`: the stream of a call on a device.
  void started(Pending work, const std::optional<c10::Stream>& stream);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return info_.outputs; }
  void synchronize() override { wait(); }
  /// Waits for the call. For a coalesced call that has not been started yet, returns at once. For a
  /// call on a device, makes the current stream wait; with a timeout, the thread waits. Throws
  /// DistBackendError if the call failed or timed out. After a timeout the whole group has failed,
  /// and the text names the late ranks.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  /// A future whose value is the list of the output tensors.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  bool coalescing() const { return region_ && region_->open; }
  bool ended() const { return !coalescing() && (event_ ? event_->query() : work_.test()); }
  void await(std::chrono::milliseconds limit) const;

  const std::shared_ptr<Member> member_;
  CallInfo info_;
  const uint64_t sequence_;
  const std::shared_ptr<Region> region_;
  mutable Pending work_;
  std::optional<c10::Event> event_; ///< recorded after a call on a device
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace rondo::compat
