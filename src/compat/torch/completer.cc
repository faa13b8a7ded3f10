// The queue of the thread that waits, and how it ends.
#include "compat/torch/completer.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <torch/csrc/python_headers.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <utility>

namespace rondo::compat {

struct Completer::State {
  struct Entry {
    rondo::Work work;
    Done done;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> entries;
  bool stopping = false;
};

namespace {

/// Signals are for the program's threads.
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

/// Gives the interpreter to the callbacks of futures, where this thread has it.
class WithoutInterpreter {
 public:
  WithoutInterpreter() {
    if (Py_IsInitialized() && PyGILState_Check()) thread_ = PyEval_SaveThread();
  }
  ~WithoutInterpreter() {
    if (thread_) PyEval_RestoreThread(thread_);
  }

 private:
  PyThreadState* thread_ = nullptr;
};

} // namespace

Completer::Completer() : state_(std::make_shared<State>()), process_(::getpid()) {}

Completer::~Completer() {
  if (!thread_.joinable()) return;
  if (::getpid() != process_) {
    // Neither joined nor detached: a thread that the child made since may have the same handle.
    static_cast<void>(std::make_unique<std::thread>(std::move(thread_)).release());
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
    return;
  }
  const WithoutInterpreter callbacks_may_run;
  thread_.join();
}

void Completer::add(rondo::Work work, Done done) {
  const std::lock_guard lock(state_->mutex);
  state_->entries.push_back({std::move(work), std::move(done)});
  if (thread_.joinable()) return state_->changed.notify_one();
  const NoSignals quiet;
  thread_ = std::thread([state = state_] { main(state); });
}

void Completer::main(const std::shared_ptr<State>& state) {
  for (;;) {
    std::optional<State::Entry> entry;
    {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return !state->entries.empty() || state->stopping; });
      if (state->entries.empty()) return;
      entry = std::move(state->entries.front());
      state->entries.pop_front();
    }
    try {
      entry->work.wait();
    } catch (...) { // done() asks for the error itself, where somebody wants it
    }
    entry->done();
    entry.reset(); // its tensors may be the last of theirs
  }
}

} // namespace rondo::compat
