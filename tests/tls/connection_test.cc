// Proves: TLS connections carry all bytes whatever the sizes, refuse peers without the key, cannot
// be talked out of TLS, keep the handshake's limits, and leave a forked child nothing to break.
// Longer than 500 lines, because it is one list of independent cases over the same two ends.
#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/link.h"
#include "net/peers.h"
#include "net/tls.h"
#include "rondo/error.h"
#include "support/forked_child.h"
#include "tls/ends.h"

namespace rondo::test {
namespace {

using namespace net;

SocketAddress loopback() { return SocketAddress::parse("127.0.0.1:0", ""); }

Dial::Settings withTls(const Host& host) {
  Dial::Settings settings = host.dial();
  settings.hello.tls = true;
  return settings;
}

std::string errorOf(const Dial::Settings& settings, ErrorCode code) {
  try {
    Dial(settings).wait();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("the connection was made");
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Sends and receives on one thread, so that each side meets a socket that is full or empty.
void carry(Tls& out, Tls& in, Bytes sent, const std::vector<std::size_t>& send_sizes,
           const std::vector<std::size_t>& receive_sizes) {
  Bytes got(sent.size());
  std::size_t out_at = 0, in_at = 0;
  int full = 0;
  const Deadline deadline(60s);
  while (in_at < got.size() && !deadline.passed()) {
    if (out_at < sent.size()) {
      const auto list = cut(sent, send_sizes, out_at, 32);
      std::size_t asked = 0;
      for (const iovec& piece : list) asked += piece.iov_len;
      const ssize_t count = out.send(list);
      if (count < 0 && errno != EAGAIN) FAIL("send failed: " << out.trouble());
      if (count > 0) out_at += static_cast<std::size_t>(count);
      if (count < static_cast<ssize_t>(asked)) ++full;
    }
    const ssize_t count = in.receive(cut(got, receive_sizes, in_at, 32));
    if (count > 0) in_at += static_cast<std::size_t>(count);
    else if (count == 0 || errno != EAGAIN) FAIL("receive failed: " << in.trouble());
  }
  CHECK(out_at == sent.size());
  CHECK(got == sent);
  if (sent.size() > 4'000'000) CHECK(full > 0);
}

} // namespace

TEST_CASE("tls: all bytes arrive, in both directions, whatever their pieces") {
  for (const std::size_t size : {1, 15, 16383, 16384, 16385, 65536, 65537, 300'001, 5'000'003}) {
    Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
    REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
    const std::vector<std::vector<std::size_t>> cuts = {
        {16, 1'000'000}, {16384}, {1, 16383, 2, 40'000}, {7, 3}};
    for (const auto& sizes : cuts) {
      if (size > 1'000'000 && sizes.back() < 100) continue;
      INFO(size << " bytes");
      carry(*ends.dialer.tls(), *ends.accepter.tls(), randomBytes(size), sizes, {1000, 64'000});
      carry(*ends.accepter.tls(), *ends.dialer.tls(), randomBytes(size), {50'000}, sizes);
    }
  }
}

TEST_CASE("tls: bytes arrive across many changes of the key") {
  // 5 MB are 305 records: 152 changes.
  Ends ends(keyOf(1), keyOf(1), 2);
  REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
  carry(*ends.dialer.tls(), *ends.accepter.tls(), randomBytes(5'000'000), {100'000}, {100'000});
  carry(*ends.accepter.tls(), *ends.dialer.tls(), randomBytes(5'000'000), {100'000}, {100'000});
}

TEST_CASE("tls: after every records_per_key records a message announces a new key") {
  for (const bool dropped : {false, true}) {
    Ends ends(keyOf(1), keyOf(1), 2);
    REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
    Bytes sent = randomBytes(10), got(10);
    constexpr std::size_t kSize = 10 + 22, kMessage = 5 + 22;
    for (int i = 0; i < 5; ++i) {
      REQUIRE(ends.dialer.tls()->send(cut(sent, {10}, 0, 1)) == 10);
      Bytes wire(1000);
      const ssize_t size = ::recv(ends.accepter.get(), wire.data(), wire.size(), 0);
      const bool announced = i == 2 || i == 4;
      REQUIRE(size == static_cast<ssize_t>(announced ? kMessage + kSize : kSize));
      const std::size_t from = announced && dropped ? kMessage : 0;
      const std::size_t rest = static_cast<std::size_t>(size) - from;
      REQUIRE(::send(ends.dialer.get(), wire.data() + from, rest, 0) > 0);
      CHECK(ends.accepter.tls()->receive(cut(got, {10}, 0, 1)) == (from == 0 ? 10 : -1));
      if (from > 0) break;
    }
    if (dropped) CHECK(errno == EBADMSG);
  }
}

TEST_CASE("tls: the message that announces a new key is not written to the caller's memory") {
  Ends ends(keyOf(1), keyOf(1), 2);
  REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
  Bytes sent = randomBytes(10), got(100, std::byte{0x5a});
  for (int i = 0; i < 2; ++i) {
    REQUIRE(ends.dialer.tls()->send(cut(sent, {10}, 0, 1)) == 10);
    REQUIRE(ends.accepter.tls()->receive(cut(got, {10}, 0, 1)) == 10);
  }
  REQUIRE(ends.dialer.tls()->send(cut(sent, {10}, 0, 1)) == 10);
  Bytes wire(1000);
  REQUIRE(::recv(ends.accepter.get(), wire.data(), wire.size(), 0) == 27 + 32);
  REQUIRE(::send(ends.dialer.get(), wire.data(), 27, 0) == 27);
  got.assign(got.size(), std::byte{0x5a});
  CHECK(ends.accepter.tls()->receive(cut(got, {100}, 0, 1)) == -1);
  CHECK(errno == EAGAIN);
  CHECK(got == Bytes(got.size(), std::byte{0x5a}));
  REQUIRE(::send(ends.dialer.get(), wire.data() + 27, 32, 0) == 32);
  CHECK(ends.accepter.tls()->receive(cut(got, {100}, 0, 1)) == 10);
}

TEST_CASE("tls: without the same key there is no connection") {
  Ends ends(keyOf(1), keyOf(2), tls::kRecordsPerKey);
  CHECK(ends.shake() == std::pair(Tls::Progress::failed, Tls::Progress::failed));
  CHECK(ends.accepter.tls()->trouble() != "");
  CHECK(ends.dialer.tls()->trouble() != "");
}

namespace {

constexpr std::size_t kAddedBytes = 5 + 1 + 16; // header, type, tag

/// The record of these bytes, taken from the wire before the other side could read it.
Bytes record(Ends& ends, Bytes bytes) {
  Bytes wire(bytes.size() + kAddedBytes + 1);
  const auto size = static_cast<ssize_t>(bytes.size());
  REQUIRE(ends.dialer.tls()->send(cut(bytes, {bytes.size()}, 0, 1)) == size);
  const ssize_t got = ::recv(ends.accepter.get(), wire.data(), wire.size(), 0);
  REQUIRE(got == size + static_cast<ssize_t>(kAddedBytes));
  wire.pop_back();
  return wire;
}

void put(Ends& ends, const Bytes& wire) {
  REQUIRE(::send(ends.dialer.get(), wire.data(), wire.size(), 0) ==
          static_cast<ssize_t>(wire.size()));
}

} // namespace

TEST_CASE("tls: a changed byte ends the connection; each later receive() fails") {
  for (const std::size_t at : {0, 1, 3, 4, 5, 100, 1004, 1005, 1006, 1021})
    for (const std::size_t room : {1000, 100}) {
      INFO("byte " << at << ", room for " << room);
      Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
      REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
      Bytes wire = record(ends, randomBytes(1000));
      wire[at] ^= std::byte{1};
      put(ends, wire);
      Bytes got(1000, std::byte{7});
      for (int i = 0; i < 3; ++i) {
        errno = 0;
        CHECK(ends.accepter.tls()->receive(cut(got, {room}, 0, 1)) == -1);
        CHECK(errno == EBADMSG);
      }
      // Bytes that are not authentic are not left in the caller's memory.
      for (const std::byte one : got) CHECK((one == std::byte{7} || one == std::byte{0}));
    }
}

TEST_CASE("tls: a record with a longer length in its header waits for bytes, and then fails") {
  for (const bool more : {true, false}) {
    Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
    REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
    Bytes wire = record(ends, randomBytes(1000));
    wire[3] ^= std::byte{4}; // 1024 bytes more
    put(ends, wire);
    Bytes got(1000, std::byte{7});
    CHECK(ends.accepter.tls()->receive(cut(got, {1000}, 0, 1)) == -1);
    CHECK(errno == EAGAIN);
    if (more) put(ends, randomBytes(1024));
    else ends.dialer.reset();
    CHECK(ends.accepter.tls()->receive(cut(got, {1000}, 0, 1)) == (more ? -1 : 0));
    if (more) CHECK(errno == EBADMSG);
    for (const std::byte one : got) CHECK(one == std::byte{7});
  }
}

TEST_CASE("tls: a record that is repeated, left out or moved is an error") {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 0}, {0, 1, 1}, {1}, {0, 2}, {0, 2, 1}}) {
    Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
    REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
    std::vector<Bytes> wire;
    for (int i = 0; i < 3; ++i) wire.push_back(record(ends, randomBytes(100)));
    std::size_t good = 0;
    while (good < order.size() && order[good] == good) ++good;
    for (const std::size_t number : order) put(ends, wire[number]);
    Bytes got(300);
    CHECK(ends.accepter.tls()->receive(cut(got, {300}, 0, 1)) ==
          (good == 0 ? -1 : static_cast<ssize_t>(100 * good)));
    errno = 0;
    CHECK(ends.accepter.tls()->receive(cut(got, {300}, 0, 1)) == -1);
    CHECK(errno == EBADMSG);
  }
}

TEST_CASE("tls: a record of the own side that comes back is an error") {
  Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
  REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
  const Bytes wire = record(ends, randomBytes(100));
  REQUIRE(::send(ends.accepter.get(), wire.data(), wire.size(), 0) > 0);
  Bytes got(100);
  CHECK(ends.dialer.tls()->receive(cut(got, {100}, 0, 1)) == -1);
  CHECK(errno == EBADMSG);
}

TEST_CASE("tls: a connection that is cut in a record delivers the records before it, then ends") {
  for (const std::size_t rest : {1, 4, 5, 60, 119})
    for (const std::size_t room : {200, 10}) {
      INFO("after " << rest << " bytes of the second record, room for " << room);
      Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
      REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
      const Bytes sent = randomBytes(100);
      const Bytes first = record(ends, sent);
      Bytes second = record(ends, randomBytes(100));
      second.resize(rest);
      put(ends, first);
      put(ends, second);
      ends.dialer.reset();
      Bytes got(200, std::byte{7});
      std::size_t at = 0;
      ssize_t count = 0;
      while ((count = ends.accepter.tls()->receive(cut(got, {room}, at, 1))) > 0)
        at += static_cast<std::size_t>(count);
      CHECK(count == 0);
      CHECK(at == sent.size());
      CHECK(std::equal(sent.begin(), sent.end(), got.begin()));
      CHECK(
          std::all_of(got.begin() + 100, got.end(), [](std::byte b) { return b == std::byte{7}; }));
      CHECK(ends.accepter.tls()->ended());
      CHECK(ends.accepter.tls()->receive(cut(got, {room}, at, 1)) == 0);
    }
}

TEST_CASE("tls: a listener accepts connections with TLS and without TLS") {
  for (const SocketAddress& address : families()) {
    if (address.family == SocketAddress::Family::unix_abstract) continue;
    const NoLeak check;
    Host host(address);
    for (const bool encrypted : {true, false, true}) {
      Dial::Settings settings = host.dial();
      settings.hello.tls = encrypted;
      Dial dial(settings);
      Socket mine = dial.wait();
      Accepted theirs = host.take();
      CHECK(theirs.hello.tls == encrypted);
      CHECK(theirs.session_key == dial.sessionKey());
      REQUIRE((mine.tls() != nullptr) == encrypted);
      REQUIRE((theirs.socket.tls() != nullptr) == encrypted);
      if (!encrypted) continue;
      CHECK_FALSE(Socket(std::move(mine)).plain()); // no byte in the clear by mistake
    }
    Dial dial(withTls(host));
    Socket mine = dial.wait();
    Accepted theirs = host.take();
    carry(*mine.tls(), *theirs.socket.tls(), randomBytes(3'000'000), {100'000}, {70'000});
    carry(*theirs.socket.tls(), *mine.tls(), randomBytes(3'000'000), {100'000}, {70'000});
    mine.reset();
    Bytes end(1);
    ssize_t result = -1;
    CHECK(eventually([&] {
      result = theirs.socket.tls()->receive(cut(end, {1}, 0, 1));
      return result >= 0;
    }));
    CHECK(result == 0); // the end of the socket is the end of the connection
    CHECK(host.acceptor.rejected() == 0);
  }
}

TEST_CASE("tls: many dials at once") {
  const NoLeak check;
  Host host(loopback(), Secret::random(), 3000ms, 8);
  std::vector<std::unique_ptr<Dial>> dials;
  for (int i = 0; i < 60; ++i) {
    Dial::Settings settings = withTls(host);
    settings.hello.rank = i;
    settings.hello.size = 60;
    dials.push_back(std::make_unique<Dial>(settings));
  }
  std::set<int> seen;
  std::vector<Socket> mine;
  for (auto& dial : dials) mine.push_back(dial->wait());
  for (int i = 0; i < 60; ++i) seen.insert(host.take().hello.rank);
  CHECK(seen.size() == 60);
}

TEST_CASE("tls: a wrong secret is refused on both sides") {
  Host host(loopback());
  Dial::Settings settings = withTls(host);
  settings.secret = Secret::random();
  CHECK(has(errorOf(settings, ErrorCode::transport), "does not know this job's secret"));
  CHECK(host.rejects(1));
}

TEST_CASE("tls: TLS is refused without a secret and over a Unix socket") {
  Host open(loopback(), Secret{});
  CHECK(has(errorOf(withTls(open), ErrorCode::invalid_argument), "secret"));
  Host local(unixAddress());
  CHECK(has(errorOf(withTls(local), ErrorCode::invalid_argument), "network"));
  for (Host* host : {&open, &local}) {
    RawPeer raw(host->acceptor.address());
    handshake::HelloMessage message = helloMessage();
    message.hello.tls = true;
    raw.send(handshake::encodeHello(message));
    const Bytes reply = raw.receive(handshake::kReplyBytes);
    REQUIRE(reply.size() == handshake::kReplyBytes);
    CHECK(handshake::decodeReply(reply).result == handshake::HandshakeResult::no_tls);
    CHECK(raw.closed());
    CHECK(host->rejects(1));
  }
}

namespace {

/// Between a dialing side and a listener; changes one byte of the hello.
class Meddler {
 public:
  Meddler(const SocketAddress& listener, std::size_t byte) {
    UniqueFd own = RawPeer::unconnected(listener);
    const NativeAddress any = toNative(loopback());
    REQUIRE(::bind(own.get(), any.get(), any.length) == 0);
    REQUIRE(::listen(own.get(), 4) == 0);
    address = localAddress(own.get());
    thread_ = std::jthread([listener, byte, fd = std::move(own)] {
      const UniqueFd from(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const UniqueFd to = RawPeer::unconnected(listener);
      const NativeAddress native = toNative(listener);
      if (::connect(to.get(), native.get(), native.length) != 0) return;
      std::array<std::byte, 4096> bytes;
      for (bool first = true;;) {
        std::array<pollfd, 2> ends{pollfd{from.get(), POLLIN, 0}, pollfd{to.get(), POLLIN, 0}};
        if (::poll(ends.data(), ends.size(), 20'000) <= 0) return;
        for (std::size_t i = 0; i < 2; ++i) {
          if (ends[i].revents == 0) continue;
          const ssize_t got = ::recv(ends[i].fd, bytes.data(), bytes.size(), 0);
          if (got <= 0) return;
          if (std::exchange(first, false)) bytes[byte] ^= std::byte{1};
          ::send(ends[1 - i].fd, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
        }
      }
    });
  }
  SocketAddress address;

 private:
  std::jthread thread_;
};

} // namespace

TEST_CASE("tls: changing the TLS flag between the sides is refused as a wrong secret") {
  constexpr std::size_t kFlags = 4 + 2 + 2 + 1 + 1; // magic, version, size, purpose, passed
  for (const bool encrypted : {true, false}) {
    Host host(loopback());
    const Meddler meddler(host.acceptor.address(), kFlags);
    Dial::Settings settings = host.dial();
    settings.address = meddler.address;
    settings.hello.tls = encrypted;
    CHECK(has(errorOf(settings, ErrorCode::transport), "does not know this job's secret"));
    CHECK(host.rejects(1));
    CHECK(host.count() == 0);
  }
}

namespace {

/// A peer that knows the secret and stops before TLS.
struct Halfway {
  explicit Halfway(Host& host) : raw(host.acceptor.address()) {
    handshake::HelloMessage message = helloMessage();
    message.hello.tls = true;
    const auto hello = handshake::encodeHello(message);
    raw.send(hello);
    const auto reply = handshake::decodeReply(raw.receive(handshake::kReplyBytes));
    raw.send(handshake::dialerProof(handshake::keyOf(host.secret), hello, reply.nonce));
  }
  RawPeer raw;
};

} // namespace

TEST_CASE("tls: a peer that stops, ends or sends garbage in the middle of the handshake") {
  const NoLeak check;
  Host host(loopback(), Secret::random(), 1s);
  Halfway silent(host);
  CHECK(silent.raw.closed()); // at the limit
  CHECK(host.rejects(1));
  { const Halfway ends(host); }
  CHECK(host.rejects(2));
  Halfway garbage(host);
  garbage.raw.send(randomBytes(500));
  CHECK(host.rejects(3));
  host.checkWorks();
}

namespace {

/// Accepts a connection that asks for TLS, proves the secret, and then does `then` with it and its
/// key for TLS.
class FalseHost {
 public:
  FalseHost(const Secret& secret, std::function<void(RawPeer&, const Key&)> then) {
    UniqueFd own = RawPeer::unconnected(loopback());
    const NativeAddress any = toNative(loopback());
    REQUIRE(::bind(own.get(), any.get(), any.length) == 0);
    REQUIRE(::listen(own.get(), 4) == 0);
    address = localAddress(own.get());
    thread_ = std::jthread([this, secret, then, fd = std::move(own)] {
      for (;;) {
        pollfd waiting{fd.get(), POLLIN, 0};
        while (::poll(&waiting, 1, 10) == 0)
          if (stop) return;
        RawPeer peer(UniqueFd(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        const Bytes bytes = peer.receive(handshake::kHelloBytes);
        if (bytes.size() != handshake::kHelloBytes) continue;
        handshake::HelloBytes hello{};
        std::copy(bytes.begin(), bytes.end(), hello.begin());
        handshake::ReplyMessage reply;
        reply.proof = handshake::accepterProof(handshake::keyOf(secret), hello, reply.nonce);
        peer.send(handshake::encodeReply(reply));
        peer.receive(handshake::kProofBytes);
        ++tries;
        then(peer, handshake::tlsKey(handshake::keyOf(secret), hello, reply.nonce));
      }
    });
  }
  ~FalseHost() { stop = true; }
  SocketAddress address;
  std::atomic<int> tries{0};
  std::atomic<bool> stop{false};

 private:
  std::jthread thread_;
};

Dial::Settings dialOf(const FalseHost& host, const Secret& secret, Clock::duration limit) {
  Dial::Settings settings;
  settings.address = host.address;
  settings.secret = secret;
  settings.hello.job = kJob;
  settings.hello.tls = true;
  settings.deadline = Deadline(limit).at();
  return settings;
}

} // namespace

TEST_CASE("tls: a listener that is silent, ends or sends garbage in the middle of the handshake") {
  const NoLeak check;
  const Secret secret = Secret::random();
  {
    FalseHost host(secret, [&](RawPeer& peer, const Key&) { peer.receive(10'000); });
    const auto before = Clock::now();
    errorOf(dialOf(host, secret, 300ms), ErrorCode::timeout);
    CHECK(Clock::now() - before < 10s);
    host.stop = true;
  }
  {
    FalseHost host(secret, [](RawPeer&, const Key&) {});
    const std::string error = errorOf(dialOf(host, secret, 3s), ErrorCode::timeout);
    CHECK(has(error, "closed the connection during the handshake"));
    CHECK(host.tries > 1); // it may have been dropped for others, and dials again
  }
  {
    FalseHost host(secret, [](RawPeer& peer, const Key&) {
      peer.send(Bytes(100, std::byte{'x'}));
      peer.receive(10'000);
    });
    CHECK(
        has(errorOf(dialOf(host, secret, 20s), ErrorCode::transport), "the TLS handshake failed"));
  }
}

TEST_CASE("tls: a welcome that is not authentic is an error, and not a reason to dial again") {
  const Secret secret = Secret::random();
  FalseHost host(secret, [](RawPeer& peer, const Key& key) {
    const auto tls = makeTls(peer.fd.get(), false, key);
    const Deadline deadline(20s);
    while (tls->handshake() == Tls::Progress::wants_to_read && !deadline.passed()) {
      pollfd waiting{peer.fd.get(), POLLIN, 0};
      ::poll(&waiting, 1, 100);
    }
    Bytes record(5 + 18, std::byte{0}); // as long as the welcome's
    record[0] = std::byte{23};
    record[4] = std::byte{18};
    peer.send(record);
    peer.receive(10'000);
  });
  const std::string error = errorOf(dialOf(host, secret, 20s), ErrorCode::transport);
  CHECK(has(error, "the TLS connection failed"));
  CHECK(host.tries == 1);
}

TEST_CASE("tls: a forked child drops its copy, and the connection goes on") {
  Host host(loopback());
  Dial dial(withTls(host));
  Socket mine = dial.wait();
  Accepted theirs = host.take();
  Child child([&] {
    mine.reset();
    theirs.socket.reset();
    return 0;
  });
  CHECK(child.end() == 0);
  carry(*mine.tls(), *theirs.socket.tls(), randomBytes(100'000), {1000}, {1000});
}

TEST_CASE("tls: a link finds frames that were read with the end of the handshake") {
  using bootstrap::Link;
  namespace frames = bootstrap::frames;
  const auto loop = EventLoop::get();
  const Secret secret = Secret::random();
  std::vector<std::shared_ptr<Link>> links;
  // The listener's callback runs before the dialing side reads the welcome, on the same thread.
  Acceptor acceptor({loopback(), secret, kJob, 128, 3000ms, {}}, [&](Accepted peer) {
    links.push_back(
        Link::open(loop, std::move(peer.socket), peer.session_key, Link::Side::hub, {}));
    for (const std::uint64_t number : {1, 2, 3})
      links.back()->send(frames::Type::ask, frames::Ask{number, 0});
  });
  Dial::Settings settings;
  settings.address = acceptor.address();
  settings.secret = secret;
  settings.hello.job = kJob;
  settings.hello.tls = true;
  settings.deadline = Deadline(20s).at();
  Dial dial(settings);
  Socket mine = dial.wait();
  CHECK(mine.tls()->buffered());
  std::atomic<int> heard{0};
  loop->call([&] {
    links.push_back(Link::open(loop, std::move(mine), dial.sessionKey(), Link::Side::member,
                               {[&](frames::Type, base::Reader& in) {
                                  frames::Ask::read(in);
                                  ++heard;
                                },
                                {}}));
  });
  CHECK(eventually([&] { return heard == 3; }));
  loop->call([&] { links.clear(); });
}

} // namespace rondo::test
