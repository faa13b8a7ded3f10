// A communicator's helper thread: makes progress on asynchronous calls while no thread waits for
// them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace rondo::comm {

class ProgressLoop;

/// The first asynchronous call starts the thread. It polls only while asynchronous calls are in
/// flight and no thread waits; otherwise it sleeps on a futex. While calls follow each other
/// quickly it only naps, and calls need no wake-up. The first two calls after a pause pay for a
/// wake-up. In a process with one processor it polls once per millisecond: a program that computes
/// and polls now and then, as GradientReducer does, makes progress on its calls itself.
class HelperThread {
 public:
  /// `rank`: for its log lines.
  HelperThread(ProgressLoop& progress_loop, int rank);
  /// Ends the thread. A forked child has no such thread.
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// Starts or wakes the thread. Needs the communicator's mutex, and asynchronous work in flight.
  void need();

  /// Whether it makes progress on calls now, or would if no thread waited. Any thread.
  bool needed() const { return needed_.load(std::memory_order_relaxed); }
  /// A thread that waits calls pause() before and resume() after, if needed() was true. The helper
  /// does nothing in between. Any thread.
  void pause() { waiting_.fetch_add(1, std::memory_order_relaxed); }
  void resume();

 private:
  void main();
  /// `deep`: sleeps until woken, at most a second. Otherwise sleeps for kNap.
  void nap(bool deep);
  void wake();

  ProgressLoop& progress_loop_;
  const int rank_;
  const pid_t process_;
  std::thread thread_;
  std::atomic<bool> needed_{false};
  std::atomic<int> waiting_{0};        ///< threads between pause() and resume()
  std::atomic<std::uint32_t> word_{0}; ///< the futex that it sleeps on; a change wakes it
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopping_{false};
};

} // namespace rondo::comm
