// A communicator's own thread: moves asynchronous calls while nobody waits.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace rondo::comm {

class ProgressLoop;

/// It exists from the first asynchronous call on, makes progress only while such calls are in
/// flight and no thread waits that came after them, else sleeps on a futex. Where calls follow each
/// other at once it only naps in between, and they pay no wake-up; the first after a pause pays
/// one, and the next. Where the process has one processor it looks once a millisecond: who computes
/// and looks now and then, as GradientReducer does, moves its calls itself.
class HelperThread {
 public:
  /// `rank`: of its log lines.
  HelperThread(ProgressLoop& progress_loop, int rank);
  /// Ends the thread, which a forked child does not have.
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// Under the communicator's mutex, with asynchronous work in flight: starts or wakes the thread.
  void need();

  /// Whether it moves calls now, or would if nobody waited. Any thread.
  bool needed() const { return needed_.load(std::memory_order_relaxed); }
  /// Any thread, around its waiting when needed() was true: meanwhile the helper does nothing.
  void pause() { waiting_.fetch_add(1, std::memory_order_relaxed); }
  void resume();

  /// On the helper thread itself: `destroy`, which destroys this object, is called when the thread
  /// has left the engine. Else false, and nothing happens.
  bool destroyLater(std::function<void()> destroy);

 private:
  void main();
  /// `deep`: until somebody wakes it, at most a second; else a look later.
  void nap(bool deep);
  void wake();

  ProgressLoop& progress_loop_;
  const int rank_;
  const pid_t process_;
  std::thread thread_;
  std::atomic<bool> needed_{false};
  std::atomic<int> waiting_{0};        ///< threads between pause() and resume()
  std::atomic<std::uint32_t> word_{0}; ///< changes to wake it; it sleeps on the word
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopping_{false};
  std::function<void()> destroy_; ///< of the thread itself
};

} // namespace rondo::comm
