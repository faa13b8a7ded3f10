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
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "compat/torch/completer.h"
#include "compat/torch/errors.h"
#include "compat/torch/messages.h"
#include "compat/torch/pending.h"
#include "rondo/communicator.h"
#include "rondo/work.h"

namespace rondo::compat {

/// One rank of a group, with the objects that its calls in flight use. The destructor waits for
/// these calls, and leaves the group. The Backend owns it; a Work does not, because the program may
/// keep a Work for longer than the group.
class Member {
 public:
  /// `timeout`: the group's; zero on a device.
  Member(Communicator made, Teller known_as, std::chrono::milliseconds timeout)
      : communicator(std::move(made)),
        teller(std::make_shared<const Teller>(std::move(known_as))),
        timeout_(timeout) {}

  [[noreturn]] void raise(const char* call, const Error& error) const {
    teller->raise(call, error);
  }
  // Any thread may call these three.
  /// Sets the group's timeout.
  void setTimeout(std::chrono::milliseconds timeout);
  /// Makes late calls fail now, because `call` has not ended within `limit`. If it ends well
  /// nevertheless, relax() sets the group's timeout again. Call it once after each hurry().
  void hurry(const char* call, std::chrono::milliseconds limit);
  void relax();

  Calls calls; ///< destroyed last, when the communicator has ended the calls
  Communicator communicator;
  std::mutex stream_mutex; ///< from setStream() until the call on that stream has been made
  const std::shared_ptr<const Teller> teller;
  Completer completer; ///< destroyed before the members above, which it uses
  /// Null on devices and in a group of one rank. Destroyed before the completer, which may wait for
  /// receives.
  std::optional<Messenger> messenger;

 private:
  std::mutex mutex_; ///< guards the members below
  std::chrono::milliseconds timeout_;
  int hurries_ = 0; ///< calls of hurry() without relax()
};

using Members = std::set<std::weak_ptr<Member>, std::owner_less<>>;

/// The calls that a thread makes, in any group, between startCoalescing() and endCoalescing(). They
/// start together, and each of their Works is complete when all of them are. Regions of several
/// groups within each other are one region, which ends when the last of them ends.
struct Region {
  /// Returns the open region of the calling thread, or null.
  static std::shared_ptr<Region> current();
  /// Adds a call to the region.
  void add(const std::shared_ptr<Member>& member, const std::optional<c10::Stream>& call_stream,
           const std::shared_ptr<AfterCall>& call, const Messages& received);
  /// Starts the calls.
  void start();
  /// Ends all calls with Error(aborted, why) instead of starting them.
  void abandon(const char* why);

  std::atomic<bool> open{true};
  int groups = 0;                    ///< groups that have not ended their part of the region
  Group group;                       ///< records Rondo's calls
  int count = 0;                     ///< the number of calls
  std::optional<c10::Stream> stream; ///< the stream of all calls; nothing if there is no such one
  std::vector<at::Tensor> tensors;   ///< tensors of all calls, kept until the calls have ended
  Messages messages;                 ///< receives that have already begun
  Members members;                   ///< the ranks that make the calls
  bool profiled = false;             ///< at least one of the calls has a profiler event
  std::shared_ptr<AfterCall> after = std::make_shared<AfterCall>(); ///< for all calls
  Pending pending; ///< all calls, once the region is not open

 private:
  void close(const Pending& calls);
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
  Work(const std::shared_ptr<Member>& member, CallInfo info, uint64_t sequence,
       std::shared_ptr<Region> region);
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
  /// DistBackendError if the call failed or timed out. After a timeout the whole group has failed
  /// (for a coalesced call, all groups of the region), and the text names the late ranks. If the
  /// call ends just after the timeout, it may succeed.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  /// A future whose value is the list of the output tensors. Throws if the call is coalesced and
  /// has not been started yet.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  bool coalescing() const { return region_ && region_->open; }
  const Pending& pending() const { return region_ ? region_->pending : work_; }
  bool ended() const { return !coalescing() && (event_ ? event_->query() : pending().test()); }
  void await(std::chrono::milliseconds limit) const;

  const std::weak_ptr<Member> member_; ///< expired: the group has been shut down
  const std::shared_ptr<const Teller> teller_;
  CallInfo info_;
  const uint64_t sequence_;
  const std::shared_ptr<Region> region_;
  Pending work_;
  std::optional<c10::Event> event_; ///< recorded after a call on a device
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace rondo::compat
