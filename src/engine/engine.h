// What the communicator asks of an engine, whichever runs its plans.
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
#include "plan/plan_cache.h"
#include "rondo/stream.h"

namespace rondo::engine {

/// One call in flight. Owned by the caller of Engine::submit().
struct Run {
  BoundPlan* plan = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t signature = 0;
  std::uint64_t sequence = 0; ///< 0: Send or Recv
  Scaling scaling;

  /// Set last, with release: everything the run wrote is visible to who reads true with acquire.
  std::atomic<bool> done{false};
  std::exception_ptr error;   ///< set before done when the run failed
  std::shared_ptr<void> keep; ///< holds an asynchronous run alive until it is done
  /// Somebody has waited for it: from then on a Send or Recv has a deadline, as a collective
  /// always.
  std::atomic<bool> attended{false};
  /// How long it had stood still when the control plane was last told; 0: it was not.
  base::Clock::duration told{};

  bool scaled() const { return scaling.ofInputs(); }

 private:
  friend class HostEngine;
  Run* next_ = nullptr;
  bool started_ = false;
  std::uint32_t loan_looks_ = 0; ///< looks at the end of the run for what is not returned
  std::uint32_t moves_ = 0;      ///< counts what moved; compared by standing()
  std::uint32_t seen_moves_ = 0;
  base::Clock::time_point seen_at_{};
};

/// A peer's message belongs to another call than ours.
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
  int peer = -1;    ///< whom it waits for; -1: nobody in particular
  std::string text; ///< "lane 0 step 3, tile 2 of 8, waiting to receive from rank 1"
  /// This rank sees at once what the peer does: nothing is under way between them.
  bool at_once = false;
};

/// A run at the head of its queue that did not move between two looks.
struct Standing {
  Run* run = nullptr;
  base::Clock::duration since{};
};

/// A device gave a run up at its deadline.
class Late : public std::exception {
 public:
  Late(const Run& late, Position at) : run(late), position(std::move(at)) {}
  const char* what() const noexcept override { return "no progress"; }

  const Run& run;
  const Position position;
};

/// Runs of one communicator. Collectives run one after the other; so do the sends to one peer, and
/// the receives from one peer; these queues are independent of each other. Not thread-safe: the
/// communicator serialises calls, but for what says otherwise.
class Engine {
 public:
  virtual ~Engine() = default;

  /// The rank's plan for calls of one shape. Opens the channels that are new.
  /// Throws Error(unsupported) for what cannot be run with the sizes that the ranks agreed on.
  virtual BoundPlan bind(plan::Planned& planned, const plan::CallShape& shape) = 0;
  /// A send or receive: a plan of one step, the same on both ends but for its direction.
  /// `signature`: Run::signature without the sequence number. Throws as bind().
  virtual BoundPlan bindMessage(const plan::RankPlan& plan, const plan::CallShape& shape,
                                std::uint64_t signature) = 0;

  /// Collectives that are submitted from now on follow what the stream holds. Throws
  /// Error(unsupported) where buffers are in host memory.
  virtual void setStream(Stream stream) = 0;
  /// Throws Error(unsupported), for `function`, where buffers are in device memory. Any thread.
  virtual void requireHostBuffers(const char* function) const = 0;

  /// Before submit(). Throws Error(invalid_argument) for buffers that the engine cannot use (null:
  /// not used).
  void admit(const void* input, const void* output) const {
    if (launches_) admitBuffers(input, output);
  }

  /// Before submit() of a run whose Scaling::factor_at is set. Throws Error(invalid_argument) where
  /// the engine cannot read it.
  virtual void admitFactor(const void* factor) const = 0;

  /// Puts the run at the end of its queue. `queue`: kCollectives, or sendQueue/recvQueue(peer).
  static constexpr int kCollectives = 0;
  static constexpr int sendQueue(int peer) { return 1 + peer; }
  static constexpr int recvQueue(int peer) { return -1 - peer; }
  virtual void submit(Run& run, int queue) = 0;
  /// After the last submit() of a call, or of a group's calls on this communicator.
  void flush() {
    if (launches_) launchNoted();
  }

  /// Moves what can be moved; true if anything did. Never blocks. Throws ForeignCall, Late, or an
  /// Error from below: the communicator is then broken, and failAll() must follow.
  virtual bool progress() = 0;

  /// Whether nothing is in flight. Any thread.
  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  /// Memory for partial results, bytes.
  virtual std::size_t scratchBytes() const = 0;
  /// The runs that have not moved for `at_least`, as far as looks like this one can tell; without
  /// Sends and Recvs that nobody has waited for (the peer's program may not be so far).
  virtual std::vector<Standing> standing(base::Clock::time_point now,
                                         base::Clock::duration at_least) = 0;
  /// The first run in flight that `wanted` is true for, or null.
  virtual const Run* findRun(const std::function<bool(const Run&)>& wanted) const = 0;
  /// The run that progress() was at when it threw.
  const Run* current() const { return current_; }
  /// Sequence number of the last collective that was completed.
  std::uint64_t completed() const { return completed_; }
  virtual Position position(const Run& run) = 0;

  /// Whether a Send of the peer has come, or begun to come, that no Recv is queued for. Throws as
  /// progress(), and Error(unsupported) where buffers are in device memory.
  virtual bool arrived(int peer) = 0;

  /// Ends every run with the error.
  virtual void failAll(const std::exception_ptr& error) = 0;

 protected:
  /// `launches`: whether admit() and flush() mean anything; else they cost no call.
  explicit Engine(bool launches) : launches_(launches) {}

  /// What every run's end consists of: after this the run may be gone.
  void end(Run& run, const std::exception_ptr& error) {
    const std::shared_ptr<void> keep = std::move(run.keep);
    if (error) {
      run.error = error;
    } else if (run.sequence > 0) {
      completed_ = run.sequence;
    }
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    run.done.store(true, std::memory_order_release);
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
