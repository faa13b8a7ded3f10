// Proves: a forked child keeps no connection of its parent open, closes none of its own descriptors
// by mistake, and finds no lock that is never released.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/fork.h"
#include "base/log.h"
#include "net/peers.h"
#include "net/tls.h"
#include "support/forked_child.h"
#include "support/grid.h"

namespace rondo::test {
namespace {

using namespace net;

/// Set while dlopen() is to wait.
std::atomic<bool> held{false}, waiting{false};

int waitForEnd(int pipe) {
  char byte = 0;
  return ::read(pipe, &byte, 1) == 0 ? 0 : 1;
}

} // namespace

// Rondo calls this instead of the C library's function.
extern "C" void* dlopen(const char* file, int flags) noexcept {
  static const auto real = reinterpret_cast<decltype(&dlopen)>(::dlsym(RTLD_NEXT, "dlopen"));
  for (; held; std::this_thread::sleep_for(1ms)) waiting = true;
  return real(file, flags);
}

TEST_CASE("a connection ends with its owner although a forked child lives on") {
  for (const SocketAddress& address : families()) {
    CAPTURE(address.text());
    Host host(address);
    Dial dial(host.dial());
    RawPeer peer(dial.wait().plain());
    Accepted accepted = host.take();
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    Child child([&] {
      ::close(ends[1]);
      return waitForEnd(ends[0]);
    });
    ::close(ends[0]);
    accepted.socket.reset();
    CHECK(peer.closed());
    ::close(ends[1]);
    CHECK(child.end() == 0);
  }
}

TEST_CASE("in a forked child descriptors are closed, and their numbers stay in use") {
  UniqueFd own(::open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd shared(::open("/dev/null", O_RDWR | O_CLOEXEC));
  shared.shareWithChildren();
  Child child([&] {
    if (::write(shared.get(), "x", 1) != 1) return 1;
    if (::write(own.get(), "x", 1) >= 0) return 2;
    const int number = own.get(), fresh = ::open("/dev/null", O_RDWR);
    if (fresh == number || fresh < 0) return 3;
    own.reset();
    shared.reset();
    return ::write(fresh, "x", 1) == 1 ? 0 : 4; // what the child opened is still open
  });
  CHECK(child.end() == 0);
  CHECK(::write(own.get(), "x", 1) == 1);
}

TEST_CASE("a released descriptor belongs to its new owner, in children too") {
  UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int number = fd.release();
  Child child([number] { return ::write(number, "x", 1) == 1 ? 0 : 1; });
  CHECK(child.end() == 0);
  ::close(number);
}

TEST_CASE("fork waits for another thread's section, but not for one of its own thread") {
  std::atomic<bool> inside{false}, outside{false}, forked{false};
  std::thread other([&] {
    {
      const base::NoFork section;
      const base::NoFork nested;
      inside = true;
      std::this_thread::sleep_for(100ms);
      outside = true;
    }
    // A child's sanitizer does not know threads that ended unjoined.
    while (!forked) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  Child child([&] {
    const base::NoFork free; // a lock that was held in the parent would hang here
    return outside ? 0 : 1;
  });
  forked = true;
  CHECK(child.end() == 0);
  other.join();
}

// See dropBesideOwnThreads().
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a child has its own sections although another thread did not leave one in time") {
  std::atomic<bool> inside{false}, forked{false};
  std::thread other([&] {
    const base::NoFork section;
    inside = true;
    while (!forked) std::this_thread::sleep_for(1ms);
  });
  while (!inside) std::this_thread::yield();
  Child child([&] {
    const base::NoFork section;
    return 0;
  });
  forked = true;
  CHECK(child.end() == 0);
  other.join();
}
#endif

TEST_CASE("children can open files while other threads open and close") {
  const auto open = [] {
    return UniqueFd::of([] { return ::open("/dev/null", O_RDWR | O_CLOEXEC); });
  };
  const Meanwhile busy([&] { open(); });
  CHECK(manyChildrenEnd([&] { return open() ? 0 : 1; }));
}

TEST_CASE("other threads enter sections while one loads a module, however long it takes") {
  held = true;
  std::atomic<bool> entered{false}, loaded{false};
  std::thread loading([&] {
    tlsMissing();
    loaded = true;
  });
  std::thread other([&] {
    while (!waiting && !loaded) std::this_thread::sleep_for(1ms);
    const base::NoFork section;
    entered = true;
  });
  const bool entered_meanwhile = eventually([&] { return entered.load(); }), loads = waiting;
  held = false;
  loading.join();
  other.join();
  if (loads) CHECK(entered_meanwhile);
  else WARN("skipped: this build has no TLS, or has loaded it before");
}

// See dropBesideOwnThreads().
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("children get a control thread of their own while other threads ask for theirs") {
  const auto loop = EventLoop::get();
  const Meanwhile busy([] { EventLoop::get(); });
  CHECK(manyChildrenEnd([] {
    int value = 1;
    EventLoop::get()->call([&] { value = 0; });
    return value;
  }));
}
#endif

TEST_CASE("children log while other threads log") {
  base::configureLog(LogLevel::trace, "/dev/null");
  {
    const Meanwhile busy([] { base::detail::writeLog(LogLevel::trace, ""); });
    // A thread that writes a line holds the lock for a small part of the time.
    CHECK(manyChildrenEnd(
        [] {
          base::log(LogLevel::trace, "from a child");
          return 0;
        },
        kWholeGrid ? 400 : 10));
  }
  base::configureLog(LogLevel::warn, "");
}

TEST_CASE("children configure the log while other threads do, or read it in the environment") {
  const auto configure = [] { base::configureLog(LogLevel::trace, "/dev/null"); };
  const auto askEnvironment = [] {
    base::detail::log_level = -1;
    base::detail::configureLogFromEnvironment();
  };
  const std::function<void()> kinds[] = {configure, askEnvironment};
  for (const auto& body : kinds) {
    const Meanwhile busy(body);
    CHECK(manyChildrenEnd([&] {
      configure();
      base::log(LogLevel::trace, "from a child");
      return 0;
    }));
  }
  base::configureLog(LogLevel::warn, "");
}

} // namespace rondo::test
