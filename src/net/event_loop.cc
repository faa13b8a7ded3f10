// Implements the control plane's thread.
#include "net/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "base/inherited_thread.h"
#include "base/log.h"
#include "base/no_signals.h"
#include "base/unique_fd.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

[[noreturn]] void systemError(const char* call, int error) {
  throw Error(ErrorCode::system, std::string("event loop: ") + call + ": " + std::strerror(error));
}

/// Runs a callback. An exception must not end the loop.
template <class Run>
void guarded(const Run& run) {
  try {
    run();
  } catch (const std::exception& error) {
    base::log(LogLevel::error, "a callback of the control thread failed: ", error.what());
  }
}

} // namespace

/// The state that the thread and the handle share. Lives until both are gone.
class EventLoop::Core : public std::enable_shared_from_this<EventLoop::Core> {
 public:
  Core()
      : epoll_(base::UniqueFd::of([] { return ::epoll_create1(EPOLL_CLOEXEC); })),
        wake_(base::UniqueFd::of([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })) {
    if (!epoll_ || !wake_) systemError("epoll_create1, eventfd", errno);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeId;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
      systemError("epoll_ctl", errno);
    }
  }

  void start() {
    const base::NoSignals quiet;
    try {
      thread_ = std::thread([self = shared_from_this()] { self->run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::system,
                  std::string("event loop: cannot start a thread: ") + error.what());
    }
    ::pthread_setname_np(thread_.native_handle(), "rondo-control");
    loop_thread_ = thread_.get_id();
  }

  void stop() {
    if (foreign()) return base::forget(thread_);
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    if (onLoopThread()) thread_.detach();
    else thread_.join();
  }

  bool foreign() const { return maker_.elsewhere(); }
  bool onLoopThread() const { return loop_thread_.load() == std::this_thread::get_id(); }

  void post(std::function<void()> run) {
    if (foreign()) return;
    bool sleeping = false;
    {
      std::lock_guard lock(mutex_);
      posted_.push_back(std::move(run));
      sleeping = posted_.size() == 1;
    }
    if (sleeping && !onLoopThread()) wake();
  }

  Id watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
    if (foreign()) return ++last_id_;
    auto entry = std::make_shared<Watch>(Watch{fd, std::move(ready)});
    std::lock_guard lock(mutex_);
    const Id id = ++last_id_;
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    watches_.emplace(id, std::move(entry));
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      const int error = errno;
      watches_.erase(id);
      systemError("epoll_ctl", error);
    }
    return id;
  }

  void rewatch(Id id, std::uint32_t events) {
    if (foreign()) return;
    std::lock_guard lock(mutex_);
    const auto found = watches_.find(id);
    if (found == watches_.end()) return;
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second->fd, &event) != 0) {
      systemError("epoll_ctl", errno);
    }
  }

  void unwatch(Id id) {
    // In a forked child the epoll set is still the parent's and must not be changed.
    if (foreign()) return;
    std::shared_ptr<Watch> removed; // destroyed after the lock is released: it may hold anything
    std::unique_lock lock(mutex_);
    if (const auto found = watches_.find(id); found != watches_.end()) {
      removed = std::move(found->second);
      watches_.erase(found);
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, removed->fd, nullptr);
    }
    waitUntilIdle(lock, id);
    lock.unlock();
  }

  std::size_t watched() {
    std::lock_guard lock(mutex_);
    return watches_.size();
  }

  Id after(std::chrono::nanoseconds delay, std::function<void()> run) {
    if (foreign()) return ++last_id_;
    const base::Clock::time_point due = base::Deadline(delay).at();
    bool first = false;
    Id id = 0;
    {
      std::lock_guard lock(mutex_);
      id = ++last_id_;
      due_.emplace(id, due);
      timers_.emplace(std::pair(due, id), std::move(run));
      first = timers_.begin()->first.second == id;
    }
    if (first && !onLoopThread()) wake();
    return id;
  }

  void cancel(Id id) {
    if (foreign()) return;
    std::function<void()> removed;
    std::unique_lock lock(mutex_);
    if (const auto found = due_.find(id); found != due_.end()) {
      const auto timer = timers_.find(std::pair(found->second, id));
      removed = std::move(timer->second);
      timers_.erase(timer);
      due_.erase(found);
    }
    waitUntilIdle(lock, id);
    lock.unlock();
  }

 private:
  static constexpr Id kWakeId = 0;

  struct Watch {
    int fd;
    std::function<void(std::uint32_t)> ready;
  };

  void wake() {
    const std::uint64_t one = 1;
    // A full eventfd means that a wake-up is already under way.
    while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }

  void waitUntilIdle(std::unique_lock<std::mutex>& lock, Id id) {
    if (id == 0 || onLoopThread()) return;
    idle_.wait(lock, [&] { return running_ != id; });
  }

  /// Timeout for epoll_wait in milliseconds, rounded up, so that no timer runs early.
  int sleepTime() {
    std::lock_guard lock(mutex_);
    if (!posted_.empty() || stopping_) return 0;
    if (timers_.empty()) return -1;
    const auto left = timers_.begin()->first.first - base::Clock::now();
    if (left <= base::Clock::duration::zero()) return 0;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::min<std::int64_t>(wait, std::numeric_limits<int>::max()));
  }

  void run() {
    loop_thread_ = std::this_thread::get_id();
    std::vector<epoll_event> events;
    for (;;) {
      events.resize(watched() + 1); // one is wake_
      const int ready =
          ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleepTime());
      for (int i = 0; i < ready; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == kWakeId) drainWake();
        else runWatch(event.data.u64, event.events);
      }
      runTimers();
      if (!runPosted()) return;
    }
  }

  void drainWake() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
  }

  void runWatch(Id id, std::uint32_t events) {
    std::shared_ptr<Watch> entry;
    {
      std::lock_guard lock(mutex_);
      const auto found = watches_.find(id); // null if an earlier callback of the batch removed it
      if (found == watches_.end()) return;
      entry = found->second;
      running_ = id;
    }
    guarded([&] { entry->ready(events); });
    entry.reset(); // before a thread in unwatch() continues
    finished();
  }

  void runTimers() {
    const base::Clock::time_point now = base::Clock::now();
    for (;;) {
      std::function<void()> run;
      {
        std::lock_guard lock(mutex_);
        if (timers_.empty() || timers_.begin()->first.first > now) return;
        const auto first = timers_.begin();
        running_ = first->first.second;
        due_.erase(running_);
        run = std::move(first->second);
        timers_.erase(first);
      }
      guarded(run);
      run = nullptr;
      finished();
    }
  }

  void finished() {
    {
      std::lock_guard lock(mutex_);
      running_ = 0;
    }
    idle_.notify_all();
  }

  /// Returns false if the loop has stopped and nothing is left to run.
  bool runPosted() {
    std::deque<std::function<void()>> batch;
    {
      std::lock_guard lock(mutex_);
      if (posted_.empty()) return !stopping_;
      batch.swap(posted_);
    }
    for (auto& run : batch) {
      guarded(run);
      run = nullptr;
    }
    return true;
  }

  const base::Maker maker_;
  base::UniqueFd epoll_, wake_;
  std::thread thread_;
  std::atomic<std::thread::id> loop_thread_{};

  std::mutex mutex_;
  std::condition_variable idle_; ///< a callback has returned
  bool stopping_ = false;
  std::atomic<Id> last_id_{0};
  Id running_ = 0; ///< id of the running callback; 0: none
  std::deque<std::function<void()>> posted_;
  std::unordered_map<Id, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<base::Clock::time_point, Id>, std::function<void()>> timers_;
  std::unordered_map<Id, base::Clock::time_point> due_;
};

std::shared_ptr<EventLoop> EventLoop::get() {
  // A process has one control thread. The table does not keep the loop alive.
  static std::mutex mutex;
  static std::weak_ptr<EventLoop> current;
  const base::NoFork whole;
  std::lock_guard lock(mutex);
  std::shared_ptr<EventLoop> loop = current.lock();
  if (loop && !loop->core_->foreign()) return loop;
  auto core = std::make_shared<Core>();
  core->start();
  loop = std::shared_ptr<EventLoop>(new EventLoop(std::move(core)));
  current = loop;
  return loop;
}

EventLoop::EventLoop(std::shared_ptr<Core> core) : core_(std::move(core)) {}
EventLoop::~EventLoop() { core_->stop(); }

void EventLoop::post(std::function<void()> run) { core_->post(std::move(run)); }

void EventLoop::call(const std::function<void()>& run) {
  if (core_->foreign()) return;
  if (onLoopThread()) return run();
  struct Outcome {
    std::mutex mutex;
    std::condition_variable done_changed;
    bool done = false;
    std::exception_ptr error;
  } outcome;
  core_->post([&run, &outcome] {
    std::exception_ptr error;
    try {
      run();
    } catch (...) {
      error = std::current_exception();
    }
    // Notify under the mutex: `outcome` dies as soon as the waiter sees `done`.
    std::lock_guard lock(outcome.mutex);
    outcome.error = std::move(error);
    outcome.done = true;
    outcome.done_changed.notify_all();
  });
  std::unique_lock lock(outcome.mutex);
  outcome.done_changed.wait(lock, [&] { return outcome.done; });
  if (outcome.error) std::rethrow_exception(outcome.error);
}

EventLoop::Id EventLoop::watch(int fd, std::uint32_t events,
                               std::function<void(std::uint32_t)> ready) {
  return core_->watch(fd, events, std::move(ready));
}
void EventLoop::rewatch(Id id, std::uint32_t events) { core_->rewatch(id, events); }
void EventLoop::unwatch(Id id) { core_->unwatch(id); }

EventLoop::Id EventLoop::after(std::chrono::nanoseconds delay, std::function<void()> run) {
  return core_->after(delay, std::move(run));
}
void EventLoop::cancel(Id id) { core_->cancel(id); }
bool EventLoop::onLoopThread() const { return core_->onLoopThread() && !core_->foreign(); }

} // namespace rondo::net
