// Decides which thread waits for calls and which threads run callbacks.
#include "compat/torch/completer.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "compat/torch/interpreter.h"

namespace rondo::compat {

namespace {

using Clock = std::chrono::steady_clock;

/// A callback that runs longer than this may be waiting for another call's callback, so another
/// thread takes over.
constexpr std::chrono::milliseconds kShortCallback{20};

/// Blocks all signals, so that threads created meanwhile leave signals to the program's threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

} // namespace

/// At most one thread watches: it waits for all calls at once. When a call has ended, the thread
/// runs its callback, and another thread may watch meanwhile.
struct Completer::State : std::enable_shared_from_this<State> {
  struct Entry {
    rondo::Work work;
    Done done;
    bool within = false; ///< added inside a callback, which may wait for it
  };
  struct Running {
    std::thread::id thread;
    Clock::time_point began;
  };

  void add(rondo::Work work, Done done);
  void main();
  // Call the functions below with the mutex held.
  bool mayWatch() const;
  void rest(std::unique_lock<std::mutex>& lock);
  std::optional<Entry> watch(std::unique_lock<std::mutex>& lock);
  void run(Entry entry, std::unique_lock<std::mutex>& lock);
  /// Wakes an idle thread, or creates one.
  void another();
  bool inCallback() const;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> entries; ///< calls whose callbacks have not begun
  std::vector<Running> running;
  bool watched = false;
  std::atomic<bool> interrupt{false}; ///< tells the watching thread to read `entries` again
  std::vector<std::thread> threads;
  std::size_t idle = 0;  ///< threads that neither watch nor run a callback
  std::size_t timed = 0; ///< idle threads that wake up by themselves after kShortCallback
  bool stopping = false;
  bool abandoned = false; ///< the threads are detached, not joined
};

Completer::Completer() : state_(std::make_shared<State>()), process_(::getpid()) {}

Completer::~Completer() {
  if (::getpid() != process_) return; // a forked child has none of the threads
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  if (state_->inCallback()) {
    state_->abandoned = true;
    for (std::thread& thread : state_->threads) thread.detach();
    state_->threads.clear();
    return;
  }
  while (!state_->threads.empty()) { // callbacks may create threads until the last one has ended
    std::thread last = std::move(state_->threads.back());
    state_->threads.pop_back();
    lock.unlock();
    {
      const WithoutInterpreter callbacks_may_run;
      last.join();
    }
    lock.lock();
  }
}

void Completer::add(rondo::Work work, Done done) { state_->add(std::move(work), std::move(done)); }

void Completer::State::add(rondo::Work work, Done done) {
  const std::lock_guard lock(mutex);
  const bool within = inCallback();
  entries.push_back({std::move(work), std::move(done), within});
  if (watched) interrupt = true;
  else if (within || running.empty() || timed == 0) another();
}

void Completer::State::another() {
  if (idle > 0) return changed.notify_one();
  const NoSignals quiet;
  try {
    std::thread made([self = shared_from_this()] { self->main(); });
    ++idle; // the thread counts as idle until it watches
    if (abandoned) made.detach();
    else threads.push_back(std::move(made));
  } catch (const std::system_error&) {
    if (threads.empty()) throw; // with fewer threads, callbacks may have to wait for each other
  }
}

void Completer::State::main() {
  std::unique_lock lock(mutex);
  for (;;) {
    while (!mayWatch()) {
      if (stopping && entries.empty()) {
        --idle;
        return;
      }
      rest(lock);
    }
    --idle;
    if (auto entry = watch(lock)) run(std::move(*entry), lock);
    ++idle;
  }
}

bool Completer::State::mayWatch() const {
  if (watched || entries.empty()) return false;
  return running.empty() || Clock::now() - running.back().began >= kShortCallback ||
         std::any_of(entries.begin(), entries.end(), [](const Entry& one) { return one.within; });
}

void Completer::State::rest(std::unique_lock<std::mutex>& lock) {
  if (entries.empty()) return changed.wait(lock);
  ++timed;
  changed.wait_for(lock, kShortCallback);
  --timed;
}

std::optional<Completer::State::Entry> Completer::State::watch(std::unique_lock<std::mutex>& lock) {
  std::vector<rondo::Work> works;
  for (const Entry& entry : entries) works.push_back(entry.work);
  watched = true;
  interrupt = false;
  lock.unlock();
  const auto ended = rondo::Work::waitAny(works, interrupt);
  lock.lock();
  watched = false;
  if (!ended) return std::nullopt;
  // The index is still valid: other threads only append entries meanwhile.
  const auto at = entries.begin() + static_cast<std::ptrdiff_t>(*ended);
  std::optional<Entry> entry = std::move(*at);
  entries.erase(at);
  return entry;
}

void Completer::State::run(Entry entry, std::unique_lock<std::mutex>& lock) {
  const auto self = std::this_thread::get_id();
  running.push_back({self, Clock::now()});
  if (!entries.empty() && timed == 0) another();
  lock.unlock();
  entry.done();
  entry = {}; // may destroy tensors, so not with the mutex held
  lock.lock();
  std::erase_if(running, [self](const Running& one) { return one.thread == self; });
}

bool Completer::State::inCallback() const {
  return std::any_of(running.begin(), running.end(),
                     [](const Running& one) { return one.thread == std::this_thread::get_id(); });
}

} // namespace rondo::compat
