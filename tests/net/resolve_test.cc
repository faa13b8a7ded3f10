// Proves: a name that is never resolved costs no more than its time limit, and names of this
// machine that its hosts file maps to loopback are not used as addresses for other machines.
#include <dlfcn.h>
#include <netdb.h>

#include <condition_variable>
#include <mutex>
#include <string_view>

#include "net/interfaces.h"
#include "net/peers.h"
#include "net/resolve.h"
#include "rondo/error.h"

namespace rondo::test {
namespace {

using namespace net;

/// Simulates a resolver whose server does not answer, until the test ends it.
struct Silence {
  std::mutex mutex;
  std::condition_variable over_changed;
  bool over = false;
  int asking = 0;

  void keep() {
    std::unique_lock lock(mutex);
    ++asking;
    over_changed.wait_for(lock, 60s, [this] { return over; });
    --asking;
    over_changed.notify_all();
  }
  /// Returns when no thread is inside any more.
  void end() {
    std::unique_lock lock(mutex);
    over = true;
    over_changed.notify_all();
    over_changed.wait_for(lock, 60s, [this] { return asking == 0; });
  }
};

Silence& silence() {
  static Silence one;
  return one;
}

} // namespace

/// The program's own function takes precedence over the system's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) noexcept(false) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto system = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool number = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (!number && std::string_view(node) == "never.answers.test") {
    silence().keep();
    return EAI_AGAIN;
  }
  return system(node, service, hints, found);
}

TEST_CASE("a resolver that hangs is abandoned, with an error that names the host") {
  const auto begin = Clock::now();
  try {
    SocketAddress::parse("never.answers.test:4711", "", 200ms);
    FAIL("resolved");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(std::string(error.what()).find("never.answers.test") != std::string::npos);
  }
  CHECK(Clock::now() - begin < 10s); // it would have hung for sixty
  silence().end();
}

TEST_CASE("numbers and local names are resolved, unknown ones are named in the error") {
  CHECK(resolve("127.0.0.1", AF_UNSPEC, 1ms).front().loopback());
  CHECK(resolve("localhost", AF_INET, 20s).front().text() == "127.0.0.1:0");
  try {
    resolve("no such name", AF_UNSPEC, 20s);
    FAIL("resolved");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(std::string(error.what()).find("no such name") != std::string::npos);
  }
}

TEST_CASE("a machine's own name is resolved to an address that others can reach") {
  const auto at = [](const char* text) { return SocketAddress::parse(text, ""); };
  const std::vector<Interface> list = {{"lo", at("127.0.0.1:0")},
                                       {"lo", at("[::1]:0")},
                                       {"eth0", at("10.0.0.5:0")},
                                       {"eth1", at("10.1.0.5:0")},
                                       {"eth0", at("[2001:db8::5]:0")}};
  const auto seen = [&](const char* found, const std::string& words, const char* wanted = "") {
    return seenByOthers(at(found), words, wanted, list).text();
  };
  CHECK(seen("127.0.1.1:29500", "node1:29500") == "10.0.0.5:29500");
  CHECK(seen("127.0.1.1:29500", "node1:29500", "eth1") == "10.1.0.5:29500");
  CHECK(seen("[::1]:29500", "node1:29500") == "[2001:db8::5]:29500");
  // A numeric address, a name that means loopback, or an address that is not loopback.
  CHECK(seen("127.0.1.1:7", "127.0.1.1:7") == "127.0.1.1:7");
  CHECK(seen("[::1]:7", "[::1]:7") == "[::1]:7");
  CHECK(seen("127.0.0.1:7", "localhost:7") == "127.0.0.1:7");
  CHECK(seen("127.0.0.1:7", "localhost.localdomain:7") == "127.0.0.1:7");
  CHECK(seen("192.0.2.1:7", "node1:7") == "192.0.2.1:7");
  // A machine without any other address.
  CHECK(seenByOthers(at("127.0.1.1:7"), "node1:7", "", {{"lo", at("127.0.0.1:0")}}).text() ==
        "127.0.1.1:7");
}

} // namespace rondo::test
