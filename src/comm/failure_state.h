// How a communicator fails: passes failures to the other ranks and to the calls in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bootstrap/session.h"
#include "engine/engine.h"
#include "observe/recorder.h"
#include "rondo/error.h"

namespace rondo::comm {

/// The control plane makes a failure the same on all ranks. This class turns it into the exception
/// that ends this rank's calls. Functions without "Any thread" need the communicator's mutex. Only
/// the throw and rethrow functions throw.
class FailureState {
 public:
  /// `timeout`, `patient`: see Options.
  FailureState(bootstrap::Session& session, engine::Engine& engine, observe::Recorder& recorder,
               std::chrono::milliseconds timeout, bool patient)
      : session_(session),
        engine_(engine),
        recorder_(recorder),
        timeout_(timeout),
        patient_(patient),
        failed_word_(session.failedWord()) {}

  void setTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Whether the control plane knows of a failure. Any thread.
  bool pending() const { return failed_word_.load(std::memory_order_acquire) != 0; }
  /// Becomes nonzero when calls must end. A futex can wait on it. Any thread.
  const std::atomic<std::uint32_t>& word() const { return spared() ? never_ : failed_word_; }

  /// Whether the calls have been ended with an error.
  bool ended() const { return error_.has_value(); }
  void throwIfEnded() const {
    if (error_) rethrow();
  }
  /// Requires ended().
  [[noreturn]] void rethrow() const { rethrow(*error_); }
  /// Throws a copy of `error`, of one of this communicator's calls. Any thread.
  [[noreturn]] void rethrow(const Error& error) const {
    if (pending()) session_.told();
    throw engine::anew(error);
  }
  /// Requires pending(). Ends all calls with the communicator's failure and returns true. With
  /// Options::patient, returns false if a process died: messages that it sent before still arrive,
  /// and calls that do not need it go on. In that case inspect() ends the calls when one of them is
  /// stalled.
  bool heed();
  /// From now on a failure ends all calls of this rank at once, also with Options::patient. Any
  /// thread.
  void endPatience() { patience_ended_.store(true, std::memory_order_relaxed); }

  /// Call it in the handler of an exception from Engine::progress(). Fails the communicator with
  /// that exception.
  void failWithCurrentException();
  /// Fails the communicator with an error that the engine threw in the call `title`.
  void fail(const std::string& title, const Error& error);
  /// Fails the communicator because this rank lacks a resource for the call, so that the other
  /// ranks do not wait for it.
  void failLocally(const std::string& title, const std::string& what);
  /// Fails the communicator because this rank closes it while calls are in flight, after the
  /// timeout.
  void leave();
  /// Call it when the process was stopped or starved until now. No thread could poll meanwhile, so
  /// the deadlines of calls start anew.
  void woke(base::Clock::time_point now) { woke_ = now; }
  /// Reports stalled calls to the control plane, and fails the communicator at the deadline.
  void inspect(base::Clock::time_point now);

  /// "AllReduce #412 (sum of 1000 float)".
  static std::string titleOf(const engine::Run& run);

 private:
  /// Whether calls go on although a process died.
  bool spared() const {
    return spared_.load(std::memory_order_relaxed) &&
           !patience_ended_.load(std::memory_order_relaxed);
  }
  /// Writes into the record what the calls wait for.
  void record(const std::vector<engine::Standing>& all);
  void endCalls(const bootstrap::Failure& failure);
  void breakDown(const bootstrap::Failure& failure,
                 const std::optional<bootstrap::Stall>& stall = {});
  void endLate(const engine::Run& run, const engine::Position& position,
               base::Clock::duration since);

  bootstrap::Session& session_;
  engine::Engine& engine_;
  observe::Recorder& recorder_;
  std::chrono::milliseconds timeout_;
  const bool patient_;
  const std::atomic<std::uint32_t>& failed_word_;
  const std::atomic<std::uint32_t> never_{0};
  std::atomic<bool> spared_{false};         ///< with Options::patient: a process died
  std::atomic<bool> patience_ended_{false}; ///< endPatience() was called
  base::Clock::time_point death_heard_{};   ///< valid if spared_
  std::optional<Error> error_;
  base::Clock::time_point woke_{};
};

} // namespace rondo::comm
