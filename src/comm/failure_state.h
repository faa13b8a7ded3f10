// How a communicator fails: what ended it, told to the other ranks and to the calls in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "base/clock.h"
#include "bootstrap/session.h"
#include "engine/engine.h"

namespace rondo::comm {

/// The control plane makes a failure the same on all ranks; here it becomes the exception that this
/// rank's calls end with. All functions but pending() are called under the communicator's mutex;
/// none throws but what it is for.
class FailureState {
 public:
  /// `timeout`, `patient`: see Options.
  FailureState(bootstrap::Session& session, engine::Engine& engine,
               std::chrono::milliseconds timeout, bool patient)
      : session_(session),
        engine_(engine),
        timeout_(timeout),
        patient_(patient),
        failed_word_(session.failedWord()) {}

  void setTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Whether the job has failed, as far as the control plane has heard. Any thread.
  bool pending() const { return failed_word_.load(std::memory_order_acquire) != 0; }
  /// Not zero once calls must end; a futex can wait on it. Any thread.
  const std::atomic<std::uint32_t>& word() const {
    return spared_.load(std::memory_order_relaxed) ? never_ : failed_word_;
  }

  /// Whether the calls have been ended.
  bool ended() const { return error_ != nullptr; }
  void throwIfEnded() const {
    if (error_) rethrow();
  }
  /// After ended().
  [[noreturn]] void rethrow() const { rethrow(error_); }
  /// Of one of this communicator's calls. Any thread.
  [[noreturn]] void rethrow(const std::exception_ptr& error) const {
    if (pending()) session_.told();
    std::rethrow_exception(error);
  }
  /// After pending(): ends all calls with what the job failed with, and says that it did. Not after
  /// the death of a process where ranks are patient: what it sent before still arrives, and calls
  /// that do not need it go on. Then inspect() ends them, when one stands still.
  bool heed();

  /// In the handler of what Engine::progress() threw: breaks the communicator with it.
  void failWithCurrentException();
  /// This rank alone cannot go on with the call, for want of something: the others must not wait
  /// for it.
  void failLocally(const std::string& title, const std::string& what);
  /// This rank goes while calls are in flight, which have not ended in the timeout.
  void leave();
  /// The process was stopped or starved until now: nobody could look for what has come meanwhile,
  /// and the deadlines of calls begin anew.
  void woke(base::Clock::time_point now) { woke_ = now; }
  /// Tells the control plane what stands still, and breaks the communicator at the deadline.
  void inspect(base::Clock::time_point now);

  /// "AllReduce #412 (sum of 1000 float)".
  static std::string titleOf(const engine::Run& run);

 private:
  void endCalls(const bootstrap::Failure& failure);
  void breakDown(const bootstrap::Failure& failure,
                 const std::optional<bootstrap::Stall>& stall = {});
  void endLate(const engine::Run& run, const engine::Position& position,
               base::Clock::duration since);

  bootstrap::Session& session_;
  engine::Engine& engine_;
  std::chrono::milliseconds timeout_;
  const bool patient_;
  const std::atomic<std::uint32_t>& failed_word_;
  const std::atomic<std::uint32_t> never_{0};
  std::atomic<bool> spared_{false};       ///< calls go on after a death
  base::Clock::time_point death_heard_{}; ///< once spared_
  std::exception_ptr error_;
  base::Clock::time_point woke_{};
};

} // namespace rondo::comm
