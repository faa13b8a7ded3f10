// A rank that is free sends the result of its last task to rank 0, and gets the next task.
//
//   request, to rank 0:  kFirst, kStopped or the length of a result; then the result
//   answer, from rank 0: kNoMore or the length of a task; then the task
#include "tools/train_share.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

constexpr std::int64_t kFirst = -1, kStopped = -2, kNoMore = -1;

void sendNumber(Communicator& comm, std::int64_t number, int peer) {
  comm.send(&number, 1, DataType::int64, peer);
}

void sendText(Communicator& comm, const std::string& text, int peer) {
  sendNumber(comm, static_cast<std::int64_t>(text.size()), peer);
  comm.send(text.data(), text.size(), DataType::uint8, peer);
}

std::int64_t receiveNumber(Communicator& comm, int peer) {
  std::int64_t number = 0;
  comm.recv(&number, 1, DataType::int64, peer);
  return number;
}

std::string receiveText(Communicator& comm, std::int64_t length, int peer) {
  std::string text(static_cast<std::size_t>(length), '\0');
  comm.recv(text.data(), text.size(), DataType::uint8, peer);
  return text;
}

/// Rank 0's list of tasks. Thread-safe.
class Tasks {
 public:
  Tasks(std::size_t count, const Sharing& sharing) : count_(count), sharing_(sharing) {}

  std::optional<std::size_t> next() {
    const std::lock_guard lock(mutex_);
    if (stopped_ || begun_ == count_) return std::nullopt;
    return begun_++;
  }
  void took(std::size_t task, const std::string& result) {
    const std::lock_guard lock(mutex_);
    sharing_.took(task, result);
    ++done_;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  bool allDone() const {
    const std::lock_guard lock(mutex_);
    return done_ == count_;
  }

 private:
  const std::size_t count_;
  const Sharing& sharing_;
  mutable std::mutex mutex_;
  std::size_t begun_ = 0, done_ = 0;
  bool stopped_ = false;
};

/// Serves the other ranks, on a thread of rank 0, until each was told that there is no more.
class Server {
 public:
  Server(Communicator& comm, const std::vector<std::string>& texts, Tasks& tasks)
      : comm_(comm),
        texts_(texts),
        tasks_(tasks),
        at_(static_cast<std::size_t>(comm.size())),
        open_(comm.size() - 1) {}

  void run() {
    constexpr std::chrono::milliseconds kPause{1}; // tasks take seconds
    std::vector<bool> left(at_.size());
    while (open_ > 0) {
      for (std::size_t peer = 1; peer < at_.size(); ++peer)
        if (!left[peer] && comm_.arrived(static_cast<int>(peer)))
          left[peer] = !serve(static_cast<int>(peer), at_[peer]);
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  /// Returns whether the peer, which did the task `at` until now, has a new one.
  bool serve(int peer, std::optional<std::size_t>& at) {
    const std::int64_t request = receiveNumber(comm_, peer);
    if (request >= 0) tasks_.took(at.value(), receiveText(comm_, request, peer));
    if (request == kStopped) tasks_.stop();
    at = tasks_.next();
    if (at) {
      sendText(comm_, texts_[*at], peer);
      return true;
    }
    sendNumber(comm_, kNoMore, peer);
    --open_;
    return false;
  }

  Communicator& comm_;
  const std::vector<std::string>& texts_;
  Tasks& tasks_;
  std::vector<std::optional<std::size_t>> at_; ///< the task of each rank
  int open_;                                   ///< ranks that may still ask
};

bool lead(Communicator& comm, const std::vector<std::string>& texts, const Sharing& sharing) {
  Tasks tasks(texts.size(), sharing);
  // An error ends the tasks of all ranks, and the other thread of this one.
  const auto faultOf = [&](const auto& run) -> std::exception_ptr {
    try {
      run();
      return nullptr;
    } catch (const std::exception& error) {
      tasks.stop();
      if (!comm.failure()) comm.abort(error.what());
      return std::current_exception();
    }
  };
  std::exception_ptr of_server;
  std::thread server([&] { of_server = faultOf([&] { Server(comm, texts, tasks).run(); }); });
  const std::exception_ptr own = faultOf([&] {
    while (const auto task = tasks.next()) {
      const auto result = sharing.work(texts[*task], [&] { return comm.failure().has_value(); });
      if (result) tasks.took(*task, *result);
      else tasks.stop();
    }
  });
  server.join();
  for (const std::exception_ptr& fault : {own, of_server})
    if (fault) std::rethrow_exception(fault);
  return tasks.allDone();
}

bool follow(Communicator& comm, const Sharing& sharing) {
  bool all = true;
  sendNumber(comm, kFirst, 0);
  for (std::int64_t length; (length = receiveNumber(comm, 0)) != kNoMore;) {
    const auto result =
        sharing.work(receiveText(comm, length, 0), [&] { return comm.failure().has_value(); });
    if (result) sendText(comm, *result, 0);
    else sendNumber(comm, kStopped, 0);
    all = all && result;
  }
  return all;
}

} // namespace

bool shareTasks(Communicator& comm, const std::vector<std::string>& tasks, const Sharing& sharing) {
  return comm.rank() == 0 ? lead(comm, tasks, sharing) : follow(comm, sharing);
}

} // namespace rondo::tools
