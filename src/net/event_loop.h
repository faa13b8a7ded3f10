// The control plane's thread: one per process, asleep in epoll.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace rondo::net {

/// Runs callbacks for descriptors, timers and other threads, one after the other, on one thread.
/// Callbacks must not block. What a callback throws is logged and dropped.
///
/// The thread starts with the first get() and ends with the last holder. A child made by fork()
/// gets a loop of its own by get(); a loop inherited from the parent does nothing there.
///
/// All functions may be called from any thread, also from callbacks. They give the callbacks no
/// chance to run on the caller's thread, except call() on the loop thread itself.
class EventLoop {
 public:
  using Id = std::uint64_t; ///< never zero, never used twice

  /// The process's loop. Throws Error(system) when it cannot be started.
  static std::shared_ptr<EventLoop> get();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs `run` soon, in the order of the posts; also what was posted before the last holder left.
  void post(std::function<void()> run);
  /// As post(), and waits until it has run; on the loop thread it runs at once. Rethrows what it
  /// throws. Do not hold a lock that a callback takes.
  void call(const std::function<void()>& run);

  /// Runs `ready(events)` whenever epoll finds one of `events` (EPOLLIN, ...; EPOLLERR and EPOLLHUP
  /// always) on `fd`, level-triggered. A descriptor may be watched once. Throws Error(system).
  Id watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  /// Other events from now on. Throws Error(system).
  void rewatch(Id id, std::uint32_t events);
  /// Before the descriptor is closed. After return the callback is not running and does not run
  /// again, unless the callback itself made the call. Do not hold a lock that it takes.
  void unwatch(Id id);

  /// Runs `run` once, not before the delay is over.
  Id after(std::chrono::nanoseconds delay, std::function<void()> run);
  /// As unwatch(); nothing happens when the timer has run.
  void cancel(Id id);

  /// Whether the caller is the loop thread.
  bool onLoopThread() const;

 private:
  class Core;
  explicit EventLoop(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

} // namespace rondo::net
