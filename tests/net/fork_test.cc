// Proves: a child made by fork() holds no connection of its parent's open, closes nothing of its
// own by mistake, and finds no lock that nobody gives back.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/fork.h"
#include "base/log.h"
#include "net/peers.h"

using namespace rondo;
using namespace rondo::net;
using namespace rondo::net::test;

namespace {

/// A child that runs `body` and ends with what it returns; one that hangs ends by a signal.
template <class Body>
class Child {
 public:
  explicit Child(const Body& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    ::alarm(30);
    ::_exit(body());
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

int waitForEnd(int pipe) {
  char byte = 0;
  return ::read(pipe, &byte, 1) == 0 ? 0 : 1;
}

} // namespace

TEST_CASE("a connection ends with its owner although a forked child lives on") {
  for (const SocketAddress& address : families()) {
    CAPTURE(address.text());
    Host host(address);
    Dial dial(host.dial());
    RawPeer peer(dial.wait());
    Accepted accepted = host.take();
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    Child child([&] {
      ::close(ends[1]);
      return waitForEnd(ends[0]);
    });
    ::close(ends[0]);
    accepted.fd.reset();
    CHECK(peer.closed());
    ::close(ends[1]);
    CHECK(child.end() == 0);
  }
}

TEST_CASE("in a forked child descriptors are dead, and their numbers stay taken") {
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
    return ::write(fresh, "x", 1) == 1 ? 0 : 4; // what the child opened is still there
  });
  CHECK(child.end() == 0);
  CHECK(::write(own.get(), "x", 1) == 1);
}

TEST_CASE("a released descriptor is its new owner's, in children too") {
  UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int number = fd.release();
  Child child([number] { return ::write(number, "x", 1) == 1 ? 0 : 1; });
  CHECK(child.end() == 0);
  ::close(number);
}

TEST_CASE("fork waits for another thread's section, and a nested one is no other") {
  std::atomic<bool> inside{false}, outside{false}, forked{false};
  std::thread other([&] {
    {
      const base::NoFork section;
      const base::NoFork nested;
      inside = true;
      std::this_thread::sleep_for(100ms);
      outside = true;
    }
    while (!forked) std::this_thread::yield(); // a child's sanitizer misses who ended unjoined
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

TEST_CASE("children of a process whose other threads log and open do both themselves") {
  const std::string path = "/dev/null";
  base::configureLog(LogLevel::trace, path);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      base::log(LogLevel::trace, "busy");
      const auto fd = UniqueFd::of([] { return ::open("/dev/null", O_RDWR | O_CLOEXEC); });
    }
  });
  for (int round = 0; round < 50; ++round) {
    Child child([] {
      base::log(LogLevel::trace, "from a child");
      return UniqueFd::of([] { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }) ? 0 : 1;
    });
    REQUIRE(child.end() == 0);
  }
  stop = true;
  other.join();
  base::configureLog(LogLevel::warn, "");
}
