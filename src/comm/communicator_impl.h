// A rank of a communicator: plans its calls, runs them, waits for them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/condition.h"
#include "bootstrap/session.h"
#include "comm/call.h"
#include "comm/call_cache.h"
#include "comm/failure_state.h"
#include "comm/progress_loop.h"
#include "comm/work_state.h"
#include "engine/engine.h"
#include "engine/fabric.h"
#include "plan/plan_cache.h"
#include "planner/choose.h"
#include "rondo/buffer.h"
#include "rondo/options.h"
#include "rondo/place.h"
#include "rondo/stream.h"

namespace rondo {
struct MemoryUse;
}

namespace rondo::comm {

/// Splits and exchanges of one communicator are made in the order of the calls, on whatever
/// threads. Any thread.
class ControlTurns {
 public:
  std::uint64_t take() { return taken_.fetch_add(1); }
  /// Throws Error(timeout) if those before are not over after `limit`.
  void await(std::uint64_t turn, std::chrono::milliseconds limit);
  void end();

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::mutex mutex_;
  base::Condition changed_;
  std::uint64_t ended_ = 0; // guarded by mutex_
};

/// Any thread may call the public functions; the engine and what is known of calls are guarded by
/// the progress loop's mutex.
class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  /// Collective: agrees with the other ranks on policy, sizes and transports.
  static std::shared_ptr<CommunicatorImpl> open(std::unique_ptr<bootstrap::Session> session,
                                                const Options& options);
  CommunicatorImpl(std::unique_ptr<bootstrap::Session> session, const Options& options,
                   planner::Policy policy, std::unique_ptr<engine::Fabric> fabric,
                   std::unique_ptr<engine::Engine> engine, bool oversubscribed,
                   std::vector<Place> places);
  /// Deleter for shared_ptr: the last owner may be a call that the helper thread completes.
  static void release(CommunicatorImpl* impl);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Equal on all ranks, unique within the job.
  std::uint64_t id() const { return session_->communicator(); }

  /// Runs the call to its end; inside a Group, takes note of it.
  void call(const Call& call);
  /// Starts the call; inside a Group, takes note of it.
  Work start(const Call& call);
  /// See Communicator.
  bool arrived(int peer);
  /// Starts the calls of a group on this communicator. Errors go to the states. `attended`: the
  /// caller goes on to wait for them.
  void startHeld(std::span<const std::shared_ptr<WorkState>> group, bool attended);

  /// Splits and exchanges are made in turn, the same on all ranks.
  std::uint64_t nextTurn() { return turns_.take(); }
  std::shared_ptr<CommunicatorImpl> split(int color, int key, std::uint64_t turn);
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> own, std::uint64_t turn);
  std::unique_ptr<bootstrap::Session> shrink(std::span<const int> excluded);
  std::shared_ptr<CommunicatorImpl> openChild(std::unique_ptr<bootstrap::Session> session);
  void abort(const std::string& reason);
  void setTimeout(std::chrono::milliseconds timeout);
  std::optional<Error> failure() const;
  /// What one of its calls ended with. Any thread.
  [[noreturn]] void rethrow(const std::exception_ptr& error) const { failure_.rethrow(error); }
  void setStream(Stream stream);
  /// That the next call goes to. Any thread.
  Stream stream() const { return Stream(stream_.load(std::memory_order_relaxed)); }
  /// Seconds that the call will take, for assumed links.
  double predict(const Call& call) const;
  /// Throws Error(unsupported) when the buffers are on a device, where `function` has no meaning.
  void requireHostBuffers(const char* function) const { engine_->requireHostBuffers(function); }
  Buffer keep(std::unique_ptr<Region> region);
  /// Throws Error(invalid_argument) when a call in flight uses the memory.
  void refuseInUse(const Region& region);
  std::string algorithmFor(Collective collective, std::size_t count, DataType type) const;
  MemoryUse memory();
  const Place& placeOf(int rank) const;
  std::string transportTo(int peer) const;

  ProgressLoop& progressLoop() { return progress_loop_; }
  /// Waits, at most for the timeout, for what is in flight: a communicator may be dropped with
  /// sends outstanding, and the peers count on them. Then fails it, on all ranks: those with calls
  /// in flight hear that this rank closed it, and with what.
  void close() noexcept;

 private:
  CallCache::Known& known(const Call& call);
  CallCache::Known& learn(const Call& call);
  plan::Spec specOf(const Call& call) const;
  engine::BoundPlan bind(const Call& call);
  void submit(const Call& call, engine::Run& run);
  template <class Body>
  auto inTurn(std::uint64_t turn, const Body& body);
  void startOnStreams(std::span<const std::shared_ptr<WorkState>> group);

  const std::unique_ptr<bootstrap::Session> session_;
  Options options_; ///< the timeout changes, under the mutex
  const planner::Policy policy_;
  const std::vector<Place> places_; ///< of all ranks
  const int rank_, size_;
  bootstrap::ProgressBoard& progress_board_;
  const pid_t process_; ///< a forked child has no business with the channels
  std::atomic<void*> stream_{nullptr};
  ControlTurns turns_;

  // Guarded by the progress loop's mutex, but for the engine's functions that say otherwise.
  std::unique_ptr<engine::Fabric> fabric_;
  plan::PlanCache plans_;
  CallCache calls_;
  // After the plans and channels, so that launches have ended before these go.
  const std::unique_ptr<engine::Engine> engine_;
  std::uint64_t sequence_ = 0;                          ///< collectives entered
  std::unordered_map<int, std::uint64_t> p2p_sequence_; ///< by engine queue
  FailureState failure_;
  ProgressLoop progress_loop_; ///< last: its helper thread ends before the rest
};

} // namespace rondo::comm
