// Tests links that lose one direction or both: all ranks get the same failure.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "bootstrap/hub.h"
#include "bootstrap/membership.h"
#include "net/native_address.h"
#include "ranks.h"
#include "session_cases.h"
#include "support/test.h"

using namespace rondo;
using namespace rondo::bootstrap;
using namespace rondo::test;
using namespace std::chrono_literals;

namespace {

/// Forwards one connection until it is told to drop the bytes of one side.
class Proxy {
 public:
  explicit Proxy(const net::SocketAddress& hub) : hub_(hub) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof any;
    auto* address = reinterpret_cast<sockaddr*>(&any);
    if (::bind(listener_.get(), address, length) != 0 || ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), address, &length) != 0)
      throw Error(ErrorCode::system, "the proxy cannot listen");
    address_ = hub;
    address_.port = ntohs(any.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    stop_ = true;
    thread_.join();
  }

  const net::SocketAddress& address() const { return address_; }
  std::atomic<bool> loses_hub{false}, loses_member{false};

 private:
  void run() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    while (::poll(&waiting, 1, 10) == 0)
      if (stop_) return;
    const base::UniqueFd member(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const base::UniqueFd hub(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const net::NativeAddress native = net::toNative(hub_);
    if (::connect(hub.get(), native.get(), native.length) != 0) return;
    std::array<char, 65536> bytes;
    while (!stop_) {
      std::array<pollfd, 2> ends{pollfd{member.get(), POLLIN, 0}, pollfd{hub.get(), POLLIN, 0}};
      if (::poll(ends.data(), ends.size(), 10) <= 0) continue;
      for (const int from : {0, 1}) {
        if (ends[static_cast<std::size_t>(from)].revents == 0) continue;
        const int in = ends[static_cast<std::size_t>(from)].fd;
        const ssize_t count = ::recv(in, bytes.data(), bytes.size(), 0);
        if (count <= 0) return;
        if (from == 0 ? loses_member : loses_hub) continue;
        const int out = ends[static_cast<std::size_t>(1 - from)].fd;
        if (::send(out, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count)
          return;
      }
    }
  }

  const net::SocketAddress hub_;
  net::SocketAddress address_;
  base::UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr int kRanks = 3;

/// Three ranks. Rank 0 hosts the hub; rank 2 connects through a proxy. Returns each rank's outcome
/// after `trouble`.
std::vector<Outcome> endsAfter(const std::function<void(Proxy&, int rank, Session&)>& trouble) {
  Hub::Settings settings;
  settings.address = net::SocketAddress::parse("127.0.0.1:0", "");
  settings.secret = net::Secret::random();
  settings.job = 4711;
  settings.size = kRanks;
  Hub hub(settings, [] {});
  Proxy proxy(hub.address());
  std::vector<Outcome> ends(kRanks);
  const auto outcomes = runRanks(kRanks, [&](int rank) {
    Membership::Settings member;
    member.hub = rank == 2 ? proxy.address() : hub.address();
    member.secret = settings.secret;
    member.job = settings.job;
    member.rank = rank;
    member.size = kRanks;
    member.deadline = base::Clock::now() + 20s;
    member.heartbeat = 300ms;
    member.hosts_hub = rank == 0;
    const SessionPtr session = Membership::join(member)->open(20s);
    session->allGather({}, 20s);
    trouble(proxy, rank, *session);
    expect(awaitFailure(*session, 20s), "the session fails");
    ends[static_cast<std::size_t>(rank)] = outcomeOf(session->failure());
  });
  CHECK(troubles(outcomes) == "");
  return ends;
}

} // namespace

TEST_CASE("a rank that does not hear the hub: all ranks blame the hub's host") {
  const auto ends = endsAfter([](Proxy& proxy, int rank, Session&) {
    if (rank == 2) proxy.loses_hub = true;
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::unresponsive);
    CHECK(end.culprit == 0);
    CHECK(end.text ==
          "rank 0, which hosts the control plane, does not respond: rank 2 heard no heartbeat for "
          "900 ms");
  }
}

TEST_CASE("a rank that the hub does not hear: all ranks blame that rank") {
  const auto ends = endsAfter([](Proxy& proxy, int rank, Session&) {
    if (rank == 2) proxy.loses_member = true;
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::unresponsive);
    CHECK(end.culprit == 2);
    CHECK(end.text == "rank 2 does not respond: no heartbeat for 900 ms");
  }
}

TEST_CASE("two ranks that lose each other: all ranks get an error that names the link") {
  const auto ends = endsAfter([](Proxy&, int rank, Session& session) {
    const int other = 3 - rank;
    if (rank > 0) session.fail({ErrorCode::peer_dead, "its peer does not answer", other});
  });
  for (const Outcome& end : ends) {
    CHECK(end.code == ErrorCode::transport);
    CHECK((end.culprit == 1 || end.culprit == 2));
    CHECK(end.text.find("the connection between rank 1 and rank 2 broke") == 0);
    CHECK(end.text == ends[0].text);
    CHECK(end.culprit == ends[0].culprit);
  }
}
