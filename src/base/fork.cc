// The pthread_atfork() handlers, and the table of descriptors that are replaced in children.
#include "base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/above_streams.h"

namespace rondo::base {
namespace {

constexpr int kMostDescriptors = 1 << 20;
constexpr int kWordBits = 64;

// Destructors of other statics use these variables, so none of them may have a destructor.
constinit std::mutex section; ///< held by NoFork, and during a fork
thread_local int depth = 0;   ///< number of NoFork objects of this thread
/// Number of threads that call fork() and wait for `section`. Other threads let them in
/// first; otherwise a thread that takes and releases the section all the time could keep them
/// out for ever.
constinit std::atomic<int> forking{0};
/// Bit fd: descriptor fd is replaced in children.
constinit std::array<std::atomic<std::uint64_t>, kMostDescriptors / kWordBits> ending{};
constinit std::atomic<int> most{0}; ///< all numbers in `ending` are below this

std::uint64_t bitOf(int fd) { return std::uint64_t{1} << (fd % kWordBits); }

/// How long fork() waits for a thread to leave its section. Threads leave it within microseconds,
/// unless something outside Rondo blocks that thread and the forking one. If a section lasts
/// longer, the child can use NoFork, but the lock that the section protects may stay locked.
constexpr std::chrono::seconds kPatience{1};
/// How long a thread that wants the section sleeps while others fork, so that it does not keep the
/// processor from them.
constexpr std::chrono::microseconds kAside{50};
thread_local bool entered = false; ///< this thread's fork holds the section

// A thread that forks inside its own section must not wait for itself.
void beforeFork() {
  if (depth > 0) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  forking.fetch_add(1);
  while (!(entered = section.try_lock()) && std::chrono::steady_clock::now() < end) ::sched_yield();
  forking.fetch_sub(1);
}
void afterFork() {
  if (std::exchange(entered, false)) section.unlock();
}

/// Only async-signal-safe calls, since the program may have other threads.
void inChild() {
  int nothing = -1;
  for (int fd = 0; fd < most.load(std::memory_order_relaxed); ++fd) {
    const std::uint64_t word = ending[static_cast<std::size_t>(fd / kWordBits)].load();
    if (word == 0) fd += kWordBits - 1 - fd % kWordBits;
    if ((word & bitOf(fd)) == 0) continue;
    if (nothing < 0) {
      ::close(fd); // there may be no other free number
      nothing = aboveStreams(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (nothing == fd) continue;
    }
    if (::dup3(nothing, fd, O_CLOEXEC) < 0) ::close(fd);
  }
  forking.store(0); // the other threads do not exist in the child
  // If fork() gave up waiting for a section of another thread: that thread does not exist here.
  if (depth == 0 && !entered) ::new (&section) std::mutex;
  afterFork();
}

[[maybe_unused]] const int installed = ::pthread_atfork(beforeFork, afterFork, inChild);

} // namespace

NoFork::NoFork() {
  if (depth++ > 0) return;
  while (forking.load() > 0) std::this_thread::sleep_for(kAside);
  section.lock();
}
NoFork::~NoFork() {
  if (--depth == 0) section.unlock();
}

void endInChildren(int fd) {
  if (fd < 0 || fd >= kMostDescriptors) return;
  ending[static_cast<std::size_t>(fd / kWordBits)].fetch_or(bitOf(fd));
  int now = most.load(std::memory_order_relaxed);
  while (now <= fd && !most.compare_exchange_weak(now, fd + 1)) continue;
}

void keepInChildren(int fd) {
  if (fd < 0 || fd >= kMostDescriptors) return;
  ending[static_cast<std::size_t>(fd / kWordBits)].fetch_and(~bitOf(fd));
}

} // namespace rondo::base
