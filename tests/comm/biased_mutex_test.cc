// Tests the biased mutex: no two threads hold it at the same time, for any threads in any order.
#include "comm/biased_mutex.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace comm;
using Way = BiasedMutex::Way;

/// Counts visits, and detects a second thread inside.
struct Room {
  BiasedMutex mutex;
  long visits = 0; // not atomic: the mutex must protect it
  std::atomic<int> inside{0};
  std::atomic<bool> crowd{false};

  void visit() {
    const Way way = mutex.lock();
    if (inside.fetch_add(1) != 0) crowd = true;
    ++visits;
    inside.fetch_sub(1);
    mutex.unlock(way);
  }
};

} // namespace

TEST_CASE("one thread keeps the bias, the second thread revokes it", "[mutex]") {
  BiasedMutex mutex;
  // Without the system call there is no bias at all.
  const bool available =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  for (int i = 0; i < 2; ++i) {
    const Way way = mutex.lock();
    CHECK(way == (available ? Way::biased : Way::plain));
    mutex.unlock(way);
  }
  std::thread([&] {
    const Way way = mutex.lock();
    if (way != Way::plain) std::abort();
    mutex.unlock(way);
  }).join();
  const Way second = mutex.lock();
  CHECK(second == Way::plain);
  Way meanwhile = Way::plain;
  std::thread([&] { meanwhile = mutex.tryLock(); }).join();
  CHECK(meanwhile == Way::not_locked);
  mutex.unlock(second);
}

// The critical race is the first visit of a second thread, so there are many rooms with few visits.
TEST_CASE("no two threads hold the mutex at the same time", "[mutex]") {
  constexpr int kRooms = kWholeGrid ? 2000 : 300, kVisits = 50, kThreads = 3;
  for (int i = 0; i < kRooms; ++i) {
    Room room;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&room, t, i] {
        for (int wait = (t * 7 + i) % 5; wait > 0; --wait) sched_yield();
        for (int visit = 0; visit < kVisits; ++visit) room.visit();
      });
    for (std::thread& thread : threads) thread.join();
    REQUIRE_FALSE(room.crowd);
    REQUIRE(room.visits == kThreads * kVisits);
  }
}

} // namespace rondo::test
