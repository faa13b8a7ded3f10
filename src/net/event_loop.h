// The control plane's thread: one per process, waiting in epoll.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace rondo::net {

/// Runs callbacks for descriptors, timers and other threads, one after the other, on one thread.
/// Callbacks must not block. Exceptions from callbacks are logged and dropped.
///
/// One turn of the loop serves all descriptors that are ready, then the timers that are due, then
/// the posted functions. So after a stop of the process, each descriptor is served once before a
/// timer decides that a peer is silent.
///
/// The first get() starts the thread; it ends with the last holder. A child made by fork() gets its
/// own loop from get(); in the child, a loop inherited from the parent does nothing.
///
/// Any thread may call any function, also in a callback. No function runs a callback on the
/// caller's thread, except call() on the loop thread itself.
class EventLoop {
 public:
  using Id = std::uint64_t; ///< never zero, never reused

  /// The process's loop. Throws Error(system) when it cannot be started.
  static std::shared_ptr<EventLoop> get();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs `run` soon, in the order of the posts. Functions posted before the last holder left still
  /// run.
  void post(std::function<void()> run);
  /// As post(), but waits until `run` has returned. On the loop thread it runs at once. Rethrows
  /// its exception. Do not hold a lock that a callback takes.
  void call(const std::function<void()>& run);

  /// Runs `ready(events)` whenever epoll finds one of `events` (EPOLLIN, ...; EPOLLERR and EPOLLHUP
  /// always) on `fd`, level-triggered. A descriptor may be watched once. Throws Error(system).
  Id watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  /// Changes the watched events. Throws Error(system).
  void rewatch(Id id, std::uint32_t events);
  /// Call it before the descriptor is closed. After it returns, the callback is not running and
  /// does not run again, unless the callback itself made the call. Do not hold a lock that it
  /// takes.
  void unwatch(Id id);

  /// Runs `run` once, after the delay.
  Id after(std::chrono::nanoseconds delay, std::function<void()> run);
  /// As unwatch(). Does nothing if the timer has run.
  void cancel(Id id);

  /// Whether the caller is the loop thread.
  bool onLoopThread() const;

 private:
  class Core;
  explicit EventLoop(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

} // namespace rondo::net
