// Tests a rendezvous whose host name has no address yet, or to which there is no route yet, as in a
// cluster that makes both for containers that run.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "net/connection.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/caught.h"
#include "support/free_port.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

std::atomic<int> asked{0};

std::vector<Outcome> meetAt(const std::string& name, std::chrono::milliseconds limit) {
  Options options = quickOptions();
  options.comm_id = name + ":" + std::to_string(freePort());
  options.init_timeout = limit;
  return runRanks(2, [&](int rank) {
    bootstrap::Session::open(Rendezvous::commId(rank, 2), options)->allGather({}, 20s);
  });
}

} // namespace

/// The program's own function takes precedence over the system's. It learns late.test at the fifth
/// question.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) noexcept(false) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto system = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool number = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (!number && std::string_view(node) == "never.test") return EAI_NONAME;
  if (number || std::string_view(node) != "late.test") return system(node, service, hints, found);
  const int before = asked++;
  if (before < 4) return before % 2 == 0 ? EAI_NONAME : EAI_AGAIN;
  return system("127.0.0.1", service, hints, found);
}

// Proves: a name that gets its address before the deadline ends no rank.
TEST_CASE("ranks wait for the address of the rendezvous' name, and then meet there") {
  CHECK(troubles(meetAt("late.test", 20s)) == "");
  CHECK(asked > 4);
}

TEST_CASE("a name that stays unknown is an error at the deadline that names it") {
  for (const Outcome& end : meetAt("never.test", 200ms)) {
    CHECK(end.code == ErrorCode::invalid_argument);
    CHECK(end.text.find("host \"never.test\" cannot be resolved") != std::string::npos);
  }
}

// Runs in a network namespace without a route.
TEST_CASE("a rendezvous to which there is no route is tried until the deadline", "[.][no-route]") {
  net::Dial::Settings settings;
  settings.address = net::SocketAddress::parse("192.0.2.1:4711", "");
  settings.secret = net::Secret::random();
  settings.deadline = base::Clock::now() + 300ms;
  CHECK(says(caught([&] { net::Dial(settings).wait(); }), ErrorCode::timeout, {"unreachable"}));
}

// Proves: a container's network may get its route after the rank has started.
TEST_CASE("a rank waits for a route to the rendezvous") {
  if (std::system("unshare --net true 2>/dev/null") != 0) {
    WARN("not run: it needs root, for a network namespace");
    return;
  }
  CHECK(std::system("unshare --net " RONDO_TEST_PROGRAMS "/test_bootstrap '[no-route]'") == 0);
}

} // namespace rondo::test
