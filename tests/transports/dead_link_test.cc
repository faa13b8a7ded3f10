// Proves: a link that carries nothing any more ends a tcp channel at both ends within three
// heartbeats and a little, with the peer named; a peer that only does not read is waited for.
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <thread>

#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::transport::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const Kind& tcpKind() {
  for (const Kind& kind : kinds())
    if (kind.name == "tcp") return kind;
  throw std::runtime_error("tcp is not registered");
}

bool connectedTcp(int fd) {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  sockaddr_storage peer{};
  socklen_t peer_length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
         protocol == IPPROTO_TCP &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
}

/// From now on no connection of this process takes anything in, as if the cables were cut: the
/// filter drops segments before their acknowledgement.
void cutAll() {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop};
  int cut = 0;
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    open.push_back(fd);
  }
  for (const int fd : open)
    if (connectedTcp(fd) &&
        ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
      ++cut;
  REQUIRE(cut >= 2);
}

Options quickOptions() {
  Options options;
  options.heartbeat = 1s;
  return options;
}

/// The bound of three heartbeats and one second, and as much again for a loaded machine.
constexpr auto kBound = 8s;

void checkNames(const Error& error, int peer) {
  CHECK(error.code() == ErrorCode::unresponsive);
  CHECK(error.culprit() == peer);
  CHECK(std::string(error.what()).find("rank " + std::to_string(peer)) != std::string::npos);
}

} // namespace

TEST_CASE("a dead link ends a channel at both ends, with the peer named") {
  World world(tcpKind(), 2, quickOptions());
  auto [out, in] = world.connect(0, 1);
  auto [back, heard] = world.connect(1, 0); // silent: only asking shows that it is dead
  out.send(1, patternOf(1, 100));
  std::uint64_t signature = 0;
  CHECK(in.next(signature) == patternOf(1, 100));
  cutAll();
  const auto begin = Clock::now();
  const Bytes large = patternOf(2, out.port().slot_bytes);
  const auto until = [&](int peer, const auto& look) {
    try {
      while (Clock::now() < begin + kBound) {
        look();
        std::this_thread::sleep_for(1ms);
      }
      FAIL("nobody noticed");
    } catch (const Error& error) {
      checkNames(error, peer);
    }
  };
  until(1, [&, &from = out] {
    if (!from.start(2, large)) from.progress();
  });
  until(0, [&, &to = in] { to.peek(); });
  until(1, [&, &to = heard] { to.peek(); });
  CHECK(Clock::now() - begin > 2s); // not before it is known
}

TEST_CASE("a peer that reads nothing for longer than the limit is waited for") {
  World world(tcpKind(), 2, quickOptions());
  auto [out, in] = world.connect(0, 1);
  const Bytes large = patternOf(2, out.port().slot_bytes);
  std::uint64_t sent = 0;
  for (const auto end = Clock::now() + 7s; Clock::now() < end; std::this_thread::sleep_for(1ms))
    if (out.start(2, large)) ++sent;
  CHECK(out.pending() > 0); // it stands before a peer that has no room
  inParallel({[&, &from = out] { from.flush(); },
              [&, &to = in] {
                std::uint64_t signature = 0;
                for (std::uint64_t i = 0; i < sent; ++i)
                  require(to.next(signature) == large, "wrong body");
              }});
}

} // namespace rondo::transport::test
