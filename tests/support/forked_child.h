// Child processes made by fork() while other threads run.
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

/// A child that runs `body` and exits with its result. A child that hangs is ended by a signal.
template <class Body>
class Child {
 public:
  explicit Child(const Body& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    ::alarm(20);
    try {
      ::_exit(body());
    } catch (...) { // the code after this belongs to the parent
      ::_exit(98);
    }
  }
  /// 0 to 255, or -1 if the child was killed.
  int end() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const pid_t pid_;
};

/// Threads that run `body` repeatedly as long as this object exists.
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

/// Whether this many children, one after the other, exit with 0. If another thread holds a lock at
/// times, it would stay locked in some of them. On a busy machine, stops after two seconds.
template <class Body>
bool manyChildrenEnd(const Body& body, int children = kWholeGrid ? 50 : 10) {
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < children && std::chrono::steady_clock::now() < enough; ++i)
    if (Child(body).end() != 0) return false;
  return true;
}

/// In a forked child: 0 if `drop`, which destroys an object with threads in the parent, does not
/// touch threads that the child made before. These may have the same handles as the parent's.
inline int dropBesideOwnThreads(const std::function<void()>& drop) {
  // The thread sanitizer allows no new thread after such a fork, and the address sanitizer has
  // locks for threads and memory that a thread of the parent may hold forever.
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
