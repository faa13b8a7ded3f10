// Proves: posts keep their order, timers do not run early, nothing runs after unwatch() or cancel()
// has returned, an exception does not end the loop, and a forked child gets its own loop.
#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/peers.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace base;

UniqueFd makeEvent() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void signal(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  REQUIRE(::write(fd.get(), &one, sizeof(one)) == sizeof(one));
}

} // namespace

TEST_CASE("there is one loop, on its own thread, which ends with its last holder") {
  const std::size_t before = openDescriptors();
  for (int round = 0; round < 20; ++round) {
    auto a = EventLoop::get();
    auto b = EventLoop::get();
    CHECK(a == b);
    CHECK_FALSE(a->onLoopThread());
    bool on_loop = false;
    a->call([&] { on_loop = a->onLoopThread(); });
    CHECK(on_loop);
  }
  CHECK(openDescriptors() == before);
}

TEST_CASE("posts of one thread run in order, and before the loop ends") {
  std::vector<int> seen;
  {
    auto loop = EventLoop::get();
    for (int i = 0; i < 1000; ++i) loop->post([&seen, i] { seen.push_back(i); });
  }
  REQUIRE(seen.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
}

// Proves: a process that was stopped reads all that has arrived before it decides who is silent.
TEST_CASE("a timer that is due runs after all descriptors that are ready have been served") {
  constexpr std::size_t kDescriptors = 200;
  auto loop = EventLoop::get();
  std::vector<UniqueFd> events;
  std::vector<EventLoop::Id> watches;
  std::size_t served = 0;
  std::promise<std::size_t> served_before_timer;
  loop->call([&] { // until this returns the loop serves none
    for (std::size_t i = 0; i < kDescriptors; ++i) {
      events.push_back(makeEvent());
      signal(events.back());
      watches.push_back(loop->watch(events.back().get(), EPOLLIN, [&, i](std::uint32_t) {
        std::uint64_t count = 0;
        REQUIRE(::read(events[i].get(), &count, sizeof(count)) == sizeof(count));
        ++served;
      }));
    }
    loop->after(std::chrono::milliseconds(1), [&] { served_before_timer.set_value(served); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  auto before = served_before_timer.get_future();
  REQUIRE(before.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(before.get() == kDescriptors);
  for (const EventLoop::Id watch : watches) loop->unwatch(watch);
}

TEST_CASE("call() returns after the run, rethrows, and nests on the loop thread") {
  auto loop = EventLoop::get();
  int value = 0;
  loop->call([&] { loop->call([&] { value = 7; }); });
  CHECK(value == 7);
  CHECK_THROWS_AS(loop->call([] { throw Error(ErrorCode::data, "x"); }), Error);
  loop->post([] { throw Error(ErrorCode::data, "the test's own: a dropped callback error"); });
  loop->call([&] { value = 8; });
  CHECK(value == 8);
}

TEST_CASE("the last holder may release the loop on the loop thread") {
  const std::size_t before = openDescriptors();
  auto loop = EventLoop::get();
  std::promise<void> done;
  EventLoop* raw = loop.get();
  raw->post([holder = std::move(loop), &done]() mutable {
    holder.reset();
    done.set_value();
  });
  REQUIRE(done.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(eventually([&] { return openDescriptors() == before; }));
}

TEST_CASE(
    "timers run once, not early, in the order of their times, also if a later one was added "
    "first") {
  auto loop = EventLoop::get();
  std::mutex mutex;
  std::vector<int> order;
  std::atomic<int> early{0}, runs{0};
  loop->after(1h, [&] { ++runs; }); // the timeout of the loop at first
  for (int delay : {30, 10, 20, 0, 5}) {
    const auto due = Clock::now() + std::chrono::milliseconds(delay);
    loop->after(std::chrono::milliseconds(delay), [&, due, delay] {
      if (Clock::now() < due) ++early;
      std::lock_guard lock(mutex);
      order.push_back(delay);
      ++runs;
    });
  }
  CHECK(eventually([&] { return runs == 5; }));
  CHECK(early == 0);
  loop->call([] {});
  std::lock_guard lock(mutex);
  // Delays were counted from slightly different times, but in steps far larger than these
  // differences: on any machine the multisets must be equal.
  std::sort(order.begin(), order.end());
  CHECK(order == std::vector<int>{0, 5, 10, 20, 30});
}

TEST_CASE("a cancelled timer does not run; cancelling one that ran does nothing") {
  auto loop = EventLoop::get();
  for (int round = 0; round < 200; ++round) {
    // The guarantee: after cancel() the callback is not running and never runs. The flag is in this
    // stack frame, so breaking the guarantee is also a use after scope.
    std::atomic<bool> cancelled{false}, late{false};
    const auto id = loop->after(std::chrono::microseconds(round * 10), [&] {
      if (cancelled) late = true;
    });
    std::this_thread::sleep_for(std::chrono::microseconds((round % 7) * 300));
    loop->cancel(id);
    cancelled = true;
    loop->cancel(id);
    CHECK_FALSE(late);
  }
}

TEST_CASE("a watch reports readiness until it is removed, and its events can be changed") {
  auto loop = EventLoop::get();
  const UniqueFd fd = makeEvent();
  std::atomic<int> reads{0}, writes{0};
  const auto id = loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t events) {
    if (events & EPOLLIN) {
      std::uint64_t value = 0;
      [[maybe_unused]] const auto got = ::read(fd.get(), &value, sizeof(value));
      ++reads;
    }
    if (events & EPOLLOUT) {
      ++writes;
      loop->rewatch(0, 0); // an unknown id is ignored
    }
  });
  CHECK_THROWS_AS(loop->watch(fd.get(), EPOLLIN, [](std::uint32_t) {}), Error);
  CHECK_THROWS_AS(loop->watch(-1, EPOLLIN, [](std::uint32_t) {}), Error);
  for (int i = 1; i <= 5; ++i) {
    signal(fd);
    CHECK(eventually([&] { return reads == i; }));
  }
  CHECK(writes == 0);
  loop->rewatch(id, EPOLLOUT);
  CHECK(eventually([&] { return writes > 2; })); // level-triggered
  loop->unwatch(id);
  const int after = writes;
  std::this_thread::sleep_for(5ms);
  CHECK(writes == after);
  loop->unwatch(id);
}

TEST_CASE("after unwatch() returned, the callback is neither running nor run again") {
  auto loop = EventLoop::get();
  for (int round = 0; round < 300; ++round) {
    const UniqueFd fd = makeEvent();
    signal(fd); // stays readable: the callback runs all the time
    auto inside = std::make_shared<std::atomic<int>>(0);
    std::atomic<bool> gone{false}, late{false};
    std::weak_ptr<std::atomic<int>> alive = inside;
    const auto id = loop->watch(fd.get(), EPOLLIN, [&, inside](std::uint32_t) {
      if (gone) late = true;
      ++*inside;
      std::this_thread::yield();
      --*inside;
    });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round % 11 * 50));
    loop->unwatch(id);
    gone = true;
    CHECK(*inside == 0);
    inside.reset();
    CHECK(alive.expired()); // the closure is destroyed too
    CHECK_FALSE(late);
  }
}

TEST_CASE("a callback may remove itself and others of the same batch") {
  auto loop = EventLoop::get();
  for (int round = 0; round < 50; ++round) {
    const UniqueFd a = makeEvent(), b = makeEvent();
    std::atomic<int> runs{0};
    EventLoop::Id ids[2] = {0, 0};
    loop->call([&] { // both become ready while the loop is here: one batch
      auto removeBoth = [&](std::uint32_t) {
        ++runs;
        loop->unwatch(ids[0]);
        loop->unwatch(ids[1]);
      };
      ids[0] = loop->watch(a.get(), EPOLLIN, removeBoth);
      ids[1] = loop->watch(b.get(), EPOLLIN, removeBoth);
      signal(a);
      signal(b);
    });
    CHECK(eventually([&] { return runs >= 1; }));
    loop->call([] {});
    CHECK(runs == 1);
  }
}

TEST_CASE("many threads post, watch and cancel at once") {
  auto loop = EventLoop::get();
  std::atomic<int> posts{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto mine = EventLoop::get();
        mine->post([&] { ++posts; });
        const auto timer = mine->after(50us, [] {});
        const UniqueFd fd = makeEvent();
        const auto id = mine->watch(fd.get(), EPOLLIN | EPOLLOUT, [](std::uint32_t) {});
        mine->cancel(timer);
        mine->unwatch(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop->call([] {});
  CHECK(posts == 400);
}

TEST_CASE("in a forked child the inherited loop does nothing, and the parent's goes on") {
  auto loop = EventLoop::get();
  const UniqueFd fd = makeEvent();
  std::atomic<int> runs{0};
  const auto id = loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t) {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(fd.get(), &value, sizeof(value));
    ++runs;
  });
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(20);
    loop->call([] { ::_exit(1); }); // does nothing here
    loop->unwatch(id);              // must not change the parent's epoll set
    loop->cancel(id);
#ifndef __SANITIZE_THREAD__ // its run time allows no new thread after such a fork
    auto own = EventLoop::get();
    if (own == loop) ::_exit(2);
    int value = 0;
    own->call([&] { value = 3; });
    if (value != 3) ::_exit(3);
    own.reset();
#endif
    loop.reset(); // joins no thread
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  signal(fd);
  CHECK(eventually([&] { return runs == 1; }));
  loop->unwatch(id);
}

} // namespace rondo::test
