// A rank of a communicator: plans its calls, runs them and waits for them.
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
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "bootstrap/session.h"
#include "comm/call.h"
#include "comm/call_cache.h"
#include "comm/call_planner.h"
#include "comm/control_turns.h"
#include "comm/failure_state.h"
#include "comm/progress_loop.h"
#include "comm/work_state.h"
#include "engine/engine.h"
#include "engine/fabric.h"
#include "observe/recorder.h"
#include "planner/choose.h"
#include "rondo/buffer.h"
#include "rondo/options.h"
#include "rondo/place.h"
#include "rondo/stream.h"

namespace rondo {
struct MemoryUse;
struct TraceSpan;
} // namespace rondo

namespace rondo::observe {
class Trace;
}

namespace rondo::comm {

/// The Communicator owns it, and so do threads that wait for a call or that make a communicator of
/// this one. Work and Buffer do not, so that the rank leaves when its Communicator is destroyed.
/// Any thread may call the public functions. The progress loop's mutex guards the engine and the
/// call cache.
class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  /// What a communicator has from the one that it is made from, if there is one.
  struct Inherited {
    std::shared_ptr<observe::Trace> trace = {};
    std::shared_ptr<const planner::RulesFile> rules = {};
  };
  /// Collective: agrees with the other ranks on policy, sizes and transports.
  static std::shared_ptr<CommunicatorImpl> open(std::unique_ptr<bootstrap::Session> session,
                                                const Options& options, Inherited inherited);
  /// What open() has made.
  struct Parts {
    std::unique_ptr<bootstrap::Session> session;
    Options options;
    planner::Policy policy;
    std::unique_ptr<engine::Fabric> fabric;
    std::unique_ptr<engine::Engine> engine; ///< uses the fabric
    bool oversubscribed = false;            ///< the ranks of this machine share processors
    std::vector<Place> places;              ///< of all ranks
  };
  explicit CommunicatorImpl(Parts parts);
  ~CommunicatorImpl();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Equal on all ranks, unique within the job.
  std::uint64_t id() const { return session_->communicator(); }

  /// Runs the call until it is done. Inside a Group it only records the call.
  void call(const Call& call);
  /// The same with the algorithm that the call names.
  void call(const Call& call, const plan::Choice& named);
  /// Runs the call until it is done, also inside a Group.
  void runNow(const Call& call);
  /// Starts the call. Inside a Group it only records the call. `named`: see sign().
  Work start(const Call& call, const plan::Choice* named = nullptr);
  /// See Communicator.
  bool arrived(int peer);
  /// Starts a group's calls on this communicator. Errors are stored in the states. `attended`: the
  /// caller will wait for the calls.
  void startHeld(std::span<const std::shared_ptr<WorkState>> group, bool attended);

  /// Turns of split() and exchange(), equal on all ranks.
  std::uint64_t nextTurn() { return turns_.take(); }
  std::shared_ptr<CommunicatorImpl> split(int color, int key, std::uint64_t turn);
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> own, std::uint64_t turn);
  /// Returns the session of a communicator without `excluded`; openChild() opens it.
  std::unique_ptr<bootstrap::Session> shrink(std::span<const int> excluded);
  /// Makes a communicator of the ranks that live. If one dies meanwhile, the rest agree once more.
  std::shared_ptr<CommunicatorImpl> shrink();
  std::shared_ptr<CommunicatorImpl> grow(int newcomers, const std::optional<UniqueId>& id,
                                         std::uint64_t turn);
  /// Collective. `shrunk`: the session is one of shrink() or survivors(), and the opening ends with
  /// Session::finishOpening().
  std::shared_ptr<CommunicatorImpl> openChild(std::unique_ptr<bootstrap::Session> session,
                                              bool shrunk);
  void abort(const std::string& reason);
  /// Aborts if calls are in flight; a forked child does nothing.
  void abandon(const std::string& why);
  void setTimeout(std::chrono::milliseconds timeout);
  std::optional<Error> failure() const;
  /// Rethrows the error that one of its calls ended with. Any thread.
  [[noreturn]] void rethrow(const Error& error) const { failure_.rethrow(error); }
  void setStream(Stream stream);
  /// The stream of the next call. Any thread.
  Stream stream() const { return Stream(stream_.load(std::memory_order_relaxed)); }
  /// Throws Error(unsupported) if buffers are on a device, where `function` is not available.
  void requireHostBuffers(const char* function) const { engine_->requireHostBuffers(function); }
  Buffer keep(std::shared_ptr<Region> region);
  /// If a call in flight uses this memory, throws Error(invalid_argument) with a text that begins
  /// with `what`.
  void refuseInUse(std::span<const std::byte> memory, const std::string& what);
  const CallPlanner& planner() const { return planner_; }
  MemoryUse memory();
  const Place& placeOf(int rank) const;
  std::string transportTo(int peer) const;

  bool tracing() const { return trace_ != nullptr; }
  void trace(const TraceSpan& span);

  ProgressLoop& progressLoop() { return progress_loop_; }
  /// Waits for the calls in flight, at most for the timeout: a program may drop a communicator with
  /// outstanding sends that its peers need. After the timeout it fails the communicator on all
  /// ranks; their calls end with an error that names this rank and its unfinished call.
  void close() noexcept;

 private:
  CallCache::Known& known(const Call& call);
  CallCache::Known& known(const Call& call, const plan::Choice& named);
  CallCache::Known& learn(const Call& call);
  void refuseUnservable(const Call& call, const plan::Choice* named);
  template <class Body>
  std::invoke_result_t<Body> orFail(const Call& call, const Body& body);
  void submit(const Call& call, const plan::Choice* named, engine::Run& run);
  /// A call's queue in the engine, and its number in this queue.
  struct Numbered {
    int queue;
    std::uint64_t sequence;
  };
  Numbered number(const Call& call, CallCache::Known& shape, engine::Run& run);
  void record(const CallCache::Known& shape, const Numbered& as, engine::Run& run,
              std::uint64_t ticks);
  void submit(engine::Run& run, int queue);
  void runOnce(const Call& call, CallCache::Known& shape, engine::Run& run);
  void finish(engine::Run& run);
  void measureFirst(const Call& call);
  std::function<void()> prepared(const Call& call, const plan::Choice& choice);
  void listen(std::shared_ptr<observe::Trace> trace);
  template <class Body>
  auto inTurn(std::uint64_t turn, const Body& body);
  void startOnStreams(std::span<const std::shared_ptr<WorkState>> group);

  const std::unique_ptr<bootstrap::Session> session_;
  std::mutex shrinking_;            ///< held while the ranks agree on who is left
  Options options_;                 ///< the mutex guards changes of the timeout
  const bool measures_;             ///< Options::planner is "measured"
  const std::vector<Place> places_; ///< of all ranks
  const int rank_, size_;
  bootstrap::ProgressBoard& progress_board_;
  const pid_t process_;                        ///< a forked child must not use the channels
  std::shared_ptr<CommunicatorImpl> in_child_; ///< itself: a forked child's copy is never destroyed
  std::atomic<void*> stream_{nullptr};
  ControlTurns turns_;
  /// Declared before the engine: it must outlive every run.
  observe::Recorder recorder_;
  std::shared_ptr<observe::Trace> trace_; ///< null: there is none

  // Guarded by the progress loop's mutex, except the engine's thread-safe functions.
  std::unique_ptr<engine::Fabric> fabric_;
  CallPlanner planner_;
  CallCache calls_;
  // Declared after plans and channels, so that launches end before these are destroyed.
  const std::unique_ptr<engine::Engine> engine_;
  std::uint64_t sequence_ = 0;                          ///< collectives entered
  std::unordered_map<int, std::uint64_t> p2p_sequence_; ///< by engine queue
  FailureState failure_;
  ProgressLoop progress_loop_; ///< last, so that its helper thread ends first
};

} // namespace rondo::comm
