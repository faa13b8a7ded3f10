// Tests that ranks of builds with another version of the control protocol refuse each other.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "base/unique_fd.h"
#include "bootstrap/hub.h"
#include "bootstrap/link.h"
#include "bootstrap/membership.h"
#include "bootstrap/session.h"
#include "bootstrap/unique_id.h"
#include "net/connection.h"
#include "net/hmac.h"
#include "session_cases.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace bootstrap;
using namespace std::chrono_literals;

constexpr int kOther = 200;
constexpr std::uint64_t kJob = 4711;
constexpr std::size_t kVersionAt = 4, kHeadBytes = 6;

/// The first frame of a side, of another version and without a body.
std::vector<std::byte> otherFrame(const net::Key& key, Link::Side side) {
  base::Writer number, frame;
  number.u64(0);
  frame.u32(2 + static_cast<std::uint32_t>(std::tuple_size_v<net::Mac>));
  frame.u8(kOther);
  frame.u8(1);
  frame.raw(net::hmacSha256(key,
                            side == Link::Side::hub ? "rondo control hub" : "rondo control member",
                            {number.bytes(), frame.bytes()}));
  return frame.take();
}

void sendOther(int fd, const net::Key& key, Link::Side side) {
  const auto frame = otherFrame(key, side);
  [[maybe_unused]] const ssize_t sent = ::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
}

/// Reads until the other side ends the connection. Returns the versions of all its frames.
std::vector<int> versionsFrom(int fd) {
  std::vector<std::byte> bytes;
  for (pollfd ready{fd, POLLIN, 0}; ::poll(&ready, 1, 20'000) == 1;) {
    std::array<std::byte, 4096> chunk;
    const ssize_t count = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (count <= 0) break;
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
  }
  std::vector<int> versions;
  for (std::size_t at = 0; at + kHeadBytes <= bytes.size();) {
    versions.push_back(std::to_integer<int>(bytes[at + kVersionAt]));
    const std::span<const std::byte> rest = std::span(bytes).subspan(at);
    at += kVersionAt + base::Reader(rest, "a frame").u32();
  }
  return versions;
}

std::string hasVersion(int version) { return "has version " + std::to_string(version); }

/// Whether the error names the other version and the one that the rank has sent.
bool namesBoth(const Caught& error, const std::string& who, const std::vector<int>& sent) {
  return !sent.empty() &&
         says(error, ErrorCode::init_failed,
              {(who + hasVersion(kOther)).c_str(), hasVersion(sent.back()).c_str()});
}

/// A hub of another version: answers each connection with one frame, or closes it.
struct OtherHub {
  explicit OtherHub(const net::Secret& secret, bool answers = true) {
    net::Acceptor::Settings settings;
    settings.address = net::SocketAddress::parse("127.0.0.1:0", "");
    settings.secret = secret;
    settings.job = kJob;
    acceptor = std::make_unique<net::Acceptor>(settings, [this, answers](net::Accepted peer) {
      if (!answers) return;
      fd = std::move(peer.socket).plain();
      sendOther(fd.get(), peer.session_key, Link::Side::hub);
    });
  }
  /// After the rank has its error.
  std::vector<int> versions() {
    acceptor.reset();
    return versionsFrom(fd.get());
  }

  base::UniqueFd fd;
  std::unique_ptr<net::Acceptor> acceptor;
};

struct Site {
  explicit Site(int size) {
    settings.address = net::SocketAddress::parse("127.0.0.2:0", "");
    settings.secret = net::Secret::random();
    settings.job = kJob;
    settings.size = size;
    hub = std::make_unique<Hub>(settings, [] {});
  }
  Membership::Settings member(int rank, int size) const {
    Membership::Settings member;
    member.hub = hub->address();
    member.secret = settings.secret;
    member.job = kJob;
    member.rank = rank;
    member.size = size;
    member.deadline = base::Clock::now() + 20s;
    member.hub_process = "the test";
    return member;
  }

  Hub::Settings settings;
  std::unique_ptr<Hub> hub;
};

/// The connection to a hub of a rank of another version; rank -1: it has no rank yet.
struct OtherRank {
  OtherRank(const Site& site, int rank, int size) {
    net::Dial::Settings dial;
    dial.address = site.hub->address();
    dial.secret = site.settings.secret;
    dial.hello.purpose = net::Hello::Purpose::control;
    dial.hello.job = kJob;
    dial.hello.rank = rank < 0 ? 0 : rank;
    dial.hello.size = rank < 0 ? 0 : size;
    dial.deadline = base::Clock::now() + 20s;
    net::Dial dialing(dial);
    fd = dialing.wait().plain();
    key = dialing.sessionKey();
  }
  void speak() const { sendOther(fd.get(), key, Link::Side::member); }

  base::UniqueFd fd;
  net::Key key{};
};

Caught openingOf(const Membership::Settings& settings) {
  return caught([&] { Membership::join(settings)->open(20s); });
}

/// The error of rank 1 of 2.
Caught openingAt(const OtherHub& hub, const net::Secret& secret) {
  Membership::Settings settings;
  settings.hub = hub.acceptor->address();
  settings.secret = secret;
  settings.job = kJob;
  settings.rank = 1;
  settings.size = 2;
  settings.deadline = base::Clock::now() + 20s;
  settings.hub_process = "the test";
  return openingOf(settings);
}

} // namespace

// Proves: the hub tells every rank which one has which version, and tells that rank its own.
TEST_CASE("a rank of another version is refused, and the other ranks' errors name both versions") {
  const Site site(2);
  const OtherRank other(site, 1, 2);
  Caught error;
  std::thread honest([&] { error = openingOf(site.member(0, 2)); });
  other.speak();
  const auto versions = versionsFrom(other.fd.get());
  honest.join();
  CHECK(namesBoth(error, "rank 1 ", versions));
  CHECK(error.culprit == 1);
}

// Proves: a rank does not take a hub of another version for dead, and tells it its own version.
TEST_CASE("a rank that meets a hub of another version names both versions") {
  const net::Secret secret = net::Secret::random();
  OtherHub hub(secret);
  const Caught error = openingAt(hub, secret);
  const auto versions = hub.versions();
  CHECK(namesBoth(error, "", versions));
  // Builds that do not tell their version close the connection.
  const OtherHub older(secret, false);
  CHECK(says(openingAt(older, secret), ErrorCode::init_failed,
             {("may have another version of Rondo's control protocol than rank 1 (" +
               std::to_string(versions.back()) + ")")
                  .c_str()}));
}

TEST_CASE("a rank that joins a hub of another version names both versions") {
  IdContent content;
  content.job = kJob;
  content.secret = net::Secret::random();
  OtherHub hub(content.secret);
  content.hub = hub.acceptor->address();
  const Caught error = caught([&] { Session::join(content.encode(), quickOptions()); });
  CHECK(namesBoth(error, "", hub.versions()));
}

TEST_CASE("ranks that grow name both versions if the new rank has another one") {
  const Site site(0);
  const OtherRank other(site, -1, 0);
  auto settings = site.member(0, 2);
  settings.newcomers = 1;
  Caught error;
  std::thread grows([&] { error = openingOf(settings); });
  // It has been given a rank once the hub has sent something.
  pollfd ready{other.fd.get(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 20'000) == 1);
  other.speak();
  const auto versions = versionsFrom(other.fd.get());
  grows.join();
  CHECK(namesBoth(error, "rank 1, a new one, ", versions));
  CHECK(error.culprit == 1);
}

} // namespace rondo::test
