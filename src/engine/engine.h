// The interface between the communicator and its engine, which runs plans on the host or on a
// device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/bound_plan.h"
#include "engine/scaling.h"
#include "observe/recorder.h"
#include "plan/plan_cache.h"
#include "rondo/error.h"
#include "rondo/stream.h"

namespace rondo::engine {

/// A copy of `error` with a text of its own. A copy by the copy constructor would share the text.
/// The C++ library counts the references to it in code that the thread sanitizer does not see, so
/// that the sanitizer would report a race when two threads drop their copies.
inline Error anew(const Error& error) { return {error.code(), error.what(), error.culprit()}; }

/// One call in flight. The caller of Engine::submit() owns it.
struct Run {
  BoundPlan* plan = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t signature = 0;
  std::uint64_t sequence = 0; ///< 0: a send or receive
  observe::Ticket recorded;   ///< its place in the rank's record of calls
  Scaling scaling;

  /// Stored last, with release. A thread that reads true with acquire sees everything that the run
  /// wrote.
  std::atomic<bool> done{false};
  /// Set before `done` if the run failed. Throw a copy, made by anew(): threads never share an
  /// exception.
  std::unique_ptr<const Error> error;
  std::shared_ptr<void> keep; ///< keeps an asynchronous run alive until it is done
  /// A thread has waited for this run. Only then does a send or receive have a deadline; a
  /// collective always has one.
  std::atomic<bool> attended{false};
  /// How long the run had not moved when the control plane was last notified; 0: never notified.
  base::Clock::duration told{};

  bool scaled() const { return scaling.ofInputs(); }

 private:
  friend class HostEngine;
  // The state of a run in a queue, which HostEngine::submit() sets. A run of the fast path is in no
  // queue: to clear all of a Run takes 9 ns on AMD Zen 4, to clear the rest 3 ns.
  struct InQueue {
    Run* next;
    bool started;
    std::uint32_t moves; ///< counts moves; standing() compares it with seen_moves
    std::uint32_t seen_moves;
    base::Clock::time_point seen_at;
  };
  InQueue queued_;
};

/// A peer's message belongs to another call than the one of this rank.
class ForeignCall : public std::exception {
 public:
  ForeignCall(int from, std::uint64_t signature, const Run& run)
      : peer(from), theirs(signature), ours(run.signature), sequence(run.sequence) {}
  const char* what() const noexcept override { return "call signatures differ"; }

  int peer;
  std::uint64_t theirs, ours, sequence;
};

/// Where a run waits.
struct Position {
  int peer = -1;    ///< the rank that it waits for; -1: no particular rank
  std::string text; ///< "lane 0 step 3, tile 2 of 8, waiting to receive from rank 1"
  /// No message can be in flight between the peer and this rank: this rank sees at once what the
  /// peer does.
  bool at_once = false;
};

/// A run at the head of its queue that did not move between two checks.
struct Standing {
  Run* run = nullptr;
  base::Clock::duration since{};
};

/// A device aborted a run because its deadline passed.
class Late : public std::exception {
 public:
  Late(const Run& late, Position at) : run(late), position(std::move(at)) {}
  const char* what() const noexcept override { return "no progress"; }

  const Run& run;
  const Position position;
};

/// Runs of one communicator. Collectives run one after the other. So do the sends to one peer, and
/// the receives from one peer. These queues are independent of each other. The class is not
/// thread-safe: the communicator serialises its calls, except functions marked "Any thread".
class Engine {
 public:
  virtual ~Engine() = default;

  /// Binds the rank's plan for calls of one shape, and opens new channels. Throws
  /// Error(unsupported) if the plan cannot run with the sizes that the ranks agreed on.
  virtual BoundPlan bind(plan::Planned& planned, const plan::CallShape& shape) = 0;
  /// Binds a send or receive: a plan of one step, the same on both ends except for its direction.
  /// `signature`: Run::signature without the sequence number. Throws as bind().
  virtual BoundPlan bindMessage(const plan::RankPlan& plan, const plan::CallShape& shape,
                                std::uint64_t signature) = 0;

  /// Collectives that are submitted from now on run after the work that is on the stream by then.
  /// Throws Error(unsupported) if buffers are in host memory.
  virtual void setStream(Stream stream) = 0;
  /// Throws Error(unsupported) in the name of `function` if buffers are in device memory. Any
  /// thread.
  virtual void requireHostBuffers(const char* function) const = 0;

  /// Call before submit(). Throws Error(invalid_argument) for buffers that the engine cannot use.
  /// Null: a buffer that the call does not use.
  void admit(const void* input, const void* output) const {
    if (launches_) admitBuffers(input, output);
  }

  /// Call before submit() of a run that has Scaling::factor_at. Throws Error(invalid_argument) if
  /// the engine cannot read it.
  virtual void admitFactor(const void* factor) const = 0;

  /// Puts the run at the end of its queue. `queue`: kCollectives, or sendQueue/recvQueue(peer).
  static constexpr int kCollectives = 0;
  static constexpr int sendQueue(int peer) { return 1 + peer; }
  static constexpr int recvQueue(int peer) { return -1 - peer; }
  virtual void submit(Run& run, int queue) = 0;
  /// For a run whose BoundPlan::fast_path is not empty, in place of submit() and progress(): makes
  /// progress on it at once, and waits for peers for a few microseconds at most. `done`: what
  /// sendAtOnce() has returned for it. Returns false if nothing was done, because other runs are in
  /// flight. Otherwise the run is done or in its queue. If it throws, as progress(), the run is in
  /// its queue.
  virtual bool runAtOnce(Run& /*run*/, int /*queue*/, std::size_t /*done*/) { return false; }
  /// For a run with BoundPlan::fast_sends, before runAtOnce(): sends the messages that need no
  /// input from peers, so that peers do not wait while this rank records the call. Returns how many
  /// steps are done; maybe none. If there are some, no function but runAtOnce() may follow.
  virtual std::size_t sendAtOnce(Run& /*run*/) { return 0; }
  /// Call after the last submit() of a call, or of a group's calls on this communicator.
  void flush() {
    if (launches_) launchNoted();
  }

  /// Makes progress on the runs; true if it made any. Never blocks. Throws ForeignCall, Late, or an
  /// Error of a transport or device. The communicator is then broken, and failAll() must follow.
  virtual bool progress() = 0;

  /// Whether no run is in flight. Any thread.
  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  /// Memory for partial results, in bytes.
  virtual std::size_t scratchBytes() const = 0;
  /// The runs that have not moved for `at_least`, as far as calls of this function can tell. Sends
  /// and receives that no thread waits for are left out, because the peer's program may come to
  /// them later.
  virtual std::vector<Standing> standing(base::Clock::time_point now,
                                         base::Clock::duration at_least) = 0;
  /// The first run in flight for which `wanted` is true, or null.
  virtual const Run* findRun(const std::function<bool(const Run&)>& wanted) const = 0;
  /// The run that progress() was working on when it threw.
  const Run* current() const { return current_; }
  /// Sequence number of the last completed collective.
  std::uint64_t completed() const { return completed_; }
  virtual Position position(const Run& run) = 0;

  /// Whether a message of the peer's Send has arrived, at least in part, for which no Recv is
  /// queued. Throws as progress(), and Error(unsupported) if buffers are in device memory.
  virtual bool arrived(int peer) = 0;

  /// Ends every run with the error.
  virtual void failAll(const Error& error) = 0;

 protected:
  /// `launches`: whether admit() and flush() have an effect; if not, they cost no virtual call.
  explicit Engine(bool launches) : launches_(launches) {}

  /// Ends a run. The caller may free the run as soon as this stores `done`.
  void end(Run& run, const Error* error) {
    const std::shared_ptr<void> keep = std::move(run.keep);
    run.recorded.end(error != nullptr);
    if (error) {
      run.error = std::make_unique<const Error>(anew(*error));
    } else if (run.sequence > 0) {
      completed_ = run.sequence;
    }
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    run.done.store(true, std::memory_order_release);
  }
  /// Ends, without an error, a run that was in no queue, for which begin() was not called, and for
  /// which no other thread waits.
  void endAtOnce(Run& run) {
    run.recorded.end(false);
    if (run.sequence > 0) completed_ = run.sequence;
    run.done.store(true, std::memory_order_relaxed);
  }
  void begin() {
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  const Run* current_ = nullptr;

 private:
  virtual void admitBuffers(const void* /*input*/, const void* /*output*/) const {}
  virtual void launchNoted() {}

  const bool launches_;
  std::uint64_t completed_ = 0;
  std::atomic<std::size_t> in_flight_{0};
};

} // namespace rondo::engine
