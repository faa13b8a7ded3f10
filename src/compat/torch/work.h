// c10d's handle to a call in flight.
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

/// One rank of a group of processes, as its calls in flight need it.
struct Member {
  Member(Communicator made, Teller known_as)
      : communicator(std::move(made)), teller(std::move(known_as)) {}

  Communicator communicator;
  const Teller teller;
  Completer completer; ///< it ends before what it uses
  /// Null on devices and where a rank is alone. It ends before the completer, which may wait for
  /// receives.
  std::optional<Messenger> messenger;

  [[noreturn]] void raise(const char* call, const Error& error) { teller.raise(call, error); }
};

/// Calls between startCoalescing() and endCoalescing(), which are started together.
struct Region {
  /// A call that is part of it.
  void add(const std::optional<c10::Stream>& call_stream, const std::shared_ptr<AfterCall>& call,
           const Messages& received);

  std::atomic<bool> open{true};
  Group group;
  std::optional<c10::Stream> stream; ///< of calls on a device
  std::vector<at::Tensor> tensors;   ///< of all calls, until they have ended
  Messages messages;                 ///< receives that have begun already
  bool profiled = false;             ///< one of the calls is
  std::shared_ptr<AfterCall> after = std::make_shared<AfterCall>(); ///< of all calls
};

/// What a call is, apart from its arguments for Rondo.
struct CallInfo {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";                 ///< as torch.distributed calls it
  bool async = true;                     ///< else it has ended when it returns
  std::chrono::milliseconds timeout{-1}; ///< of this call; negative: the group's
  std::vector<at::Tensor> outputs = {};  ///< what its future holds
  std::vector<at::Tensor> inputs = {};   ///< what else must live until it has ended
  std::shared_ptr<AfterCall> after = {}; ///< what remains to be done when it has ended, or null
  int source = -1;                       ///< of a receive
};

/// The work of one call. wait() moves it on the caller's thread. Where the program drops it, or
/// asks for a future, a Completer does. Any thread may call.
class Work : public c10d::Work {
 public:
  /// Done already; `region`: the coalescing that the call is part of, if any.
  Work(std::shared_ptr<Member> member, CallInfo info, uint64_t sequence,
       std::shared_ptr<Region> region = nullptr);
  ~Work() override;
  /// `stream`: that the call is on, with tensors of a device.
  void started(Pending work, const std::optional<c10::Stream>& stream);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return info_.outputs; }
  void synchronize() override { wait(); }
  /// Of a coalesced call it returns at once until the coalescing has ended: nothing has begun.
  /// Of a call on a device it makes the current stream wait; with a timeout the thread waits.
  /// Throws DistBackendError when the call failed, or did not end in time; then the whole group has
  /// failed, and the text says who is late.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  /// Of the list of the output tensors.
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
  std::optional<c10::Event> event_; ///< behind a call on a device
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace rondo::compat
