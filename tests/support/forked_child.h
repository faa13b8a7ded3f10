// Children that fork() makes, and what other threads do meanwhile.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {

/// A child that runs `body` and ends with what it returns; one that hangs ends by a signal.
template <class Body>
class Child {
 public:
  explicit Child(const Body& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    ::alarm(20);
    try {
      ::_exit(body());
    } catch (...) { // what comes next is the parent's
      ::_exit(98);
    }
  }
  /// 0 to 255, or -1 for a child that was killed.
  int end() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const pid_t pid_;
};

/// Threads that run `body` over and over, for as long as this lives.
class Meanwhile {
 public:
  explicit Meanwhile(const std::function<void()>& body) {
    for (int i = 0; i < 2; ++i)
      threads_.emplace_back([this, body] {
        while (!stop_) body();
      });
  }
  ~Meanwhile() {
    stop_ = true;
    for (std::thread& one : threads_) one.join();
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Whether so many children, one after the other, end with 0: a lock that another thread holds now
/// and then would stay locked in some of them. On a busy machine they are as many as there are in
/// two seconds.
template <class Body>
bool manyChildrenEnd(const Body& body, int children = kWholeGrid ? 50 : 10) {
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < children && std::chrono::steady_clock::now() < enough; ++i)
    if (Child(body).end() != 0) return false;
  return true;
}

/// In a forked child: 0 when `drop`, which destroys what has threads in the parent, leaves alone
/// those that the child has made first. Their handles are those of the parent's.
inline int dropBesideOwnThreads(const std::function<void()>& drop) {
  // The thread sanitizer allows no new thread after such a fork, and the address sanitizer has
  // locks for threads and memory that a thread of the parent may hold for ever.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  drop();
#else
  std::atomic<bool> over{false};
  std::vector<std::thread> own;
  for (int i = 0; i < 16; ++i) // more than the parent has
    own.emplace_back([&over] {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  drop();
  over = true;
  try {
    for (std::thread& one : own) one.join();
  } catch (const std::system_error&) {
    ::_exit(99); // one was joined or detached already
  }
#endif
  return 0;
}

} // namespace rondo::test
