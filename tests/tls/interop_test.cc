// Proves: the bytes on the wire are TLS 1.3, because a peer that only uses libssl understands them
// and sends the same, in both roles and across new keys from both sides; and what this module never
// sends is refused, also if the peer has encrypted it.
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/tls.h"
#include "net/tls/records.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace std::chrono_literals;
using base::Deadline;
using base::UniqueFd;

using Bytes = std::vector<unsigned char>;

constexpr char kIdentity[] = "rondo";
constexpr std::byte kKeyByte{1};

Bytes randomBytes(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

unsigned ofClient(SSL* /*ssl*/, const char* /*hint*/, char* identity, unsigned /*most*/,
                  unsigned char* key, unsigned /*most_key*/) {
  std::memcpy(identity, kIdentity, sizeof kIdentity);
  std::memset(key, std::to_integer<int>(kKeyByte), sizeof(Key));
  return sizeof(Key);
}

unsigned ofServer(SSL* ssl, const char* identity, unsigned char* key, unsigned most_key) {
  if (std::strcmp(identity, kIdentity) != 0) return 0;
  std::array<char, sizeof kIdentity> same;
  return ofClient(ssl, nullptr, same.data(), same.size(), key, most_key);
}

/// A side of the module and one of libssl, after the handshake.
struct Pair {
  explicit Pair(bool module_dials, std::uint64_t records_per_key = tls::kRecordsPerKey) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    own_fd = UniqueFd(fds[0]);
    peer_fd = UniqueFd(fds[1]);
    Key key;
    key.fill(kKeyByte);
    own = makeTls(fds[0], module_dials, key, records_per_key);
    context.reset(::SSL_CTX_new(::TLS_method()));
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
    ::SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
    ::SSL_CTX_set_num_tickets(context.get(), 0);
    ::SSL_CTX_set_psk_client_callback(context.get(), ofClient);
    ::SSL_CTX_set_psk_server_callback(context.get(), ofServer);
    ::SSL_CTX_set_keylog_callback(context.get(), keep);
    peer.reset(::SSL_new(context.get()));
    SSL_set_app_data(peer.get(), this);
    ::SSL_set_fd(peer.get(), fds[1]);
    if (module_dials) ::SSL_set_accept_state(peer.get());
    else ::SSL_set_connect_state(peer.get());
    Tls::Progress mine = Tls::Progress::wants_to_read;
    int theirs = 0;
    for (int i = 0; i < 10 && (mine != Tls::Progress::done || theirs != 1); ++i) {
      if (mine != Tls::Progress::done) mine = own->handshake();
      if (theirs != 1) theirs = ::SSL_do_handshake(peer.get());
    }
    INFO(own->trouble());
    REQUIRE(mine == Tls::Progress::done);
    REQUIRE(theirs == 1);
  }

  /// Both send and receive a piece as large as fits.
  ssize_t send(const Bytes& bytes, std::size_t from) {
    const iovec piece{const_cast<unsigned char*>(bytes.data()) + from, bytes.size() - from};
    return own->send({&piece, 1});
  }
  ssize_t receive(Bytes& bytes, std::size_t from) {
    const iovec piece{bytes.data() + from, bytes.size() - from};
    return own->receive({&piece, 1});
  }
  void toPeer(const Bytes& sent) {
    Bytes got(sent.size());
    const Deadline deadline(60s);
    for (std::size_t out = 0, in = 0; in < got.size() && !deadline.passed();) {
      if (out < sent.size())
        if (const ssize_t count = send(sent, out); count > 0)
          out += static_cast<std::size_t>(count);
      std::size_t count = 0;
      const int result = ::SSL_read_ex(peer.get(), got.data() + in, got.size() - in, &count);
      if (result != 1 && ::SSL_get_error(peer.get(), result) != SSL_ERROR_WANT_READ)
        FAIL("libssl cannot read: " << reason());
      in += count;
    }
    CHECK(got == sent);
  }
  /// `per_key`: bytes after which libssl announces a new key.
  void fromPeer(const Bytes& sent, std::size_t per_key) {
    Bytes got(sent.size());
    const Deadline deadline(60s);
    for (std::size_t out = 0, in = 0; in < got.size() && !deadline.passed();) {
      if (out < sent.size()) {
        std::size_t count = 0;
        const std::size_t most = std::min(per_key - out % per_key, sent.size() - out);
        if (::SSL_write_ex(peer.get(), sent.data() + out, most, &count) == 1) {
          out += count;
          if (out % per_key == 0)
            REQUIRE(::SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        }
      }
      const ssize_t count = receive(got, in);
      if (count == 0 || (count < 0 && errno != EAGAIN)) FAIL("cannot receive: " << own->trouble());
      if (count > 0) in += static_cast<std::size_t>(count);
    }
    CHECK(got == sent);
  }
  /// The alert of which libssl tells when it reads next.
  std::string reason() {
    unsigned char byte = 0;
    ::ERR_clear_error();
    if (::SSL_read(peer.get(), &byte, 1) > 0) return "it reads";
    const char* const text = ::ERR_reason_error_string(::ERR_peek_last_error());
    return text == nullptr ? "" : text;
  }

  /// Sends a record of the peer without libssl.
  void forge(tls::Type type, Bytes content) {
    Bytes wire(content.size() + tls::kAddedBytes);
    const iovec piece{content.data(), content.size()};
    tls::Place from(std::span(&piece, 1));
    REQUIRE(forged.seal(type, from, content.size(), wire.data()));
    const auto size = static_cast<ssize_t>(wire.size());
    REQUIRE(::send(peer_fd.get(), wire.data(), wire.size(), 0) == size);
  }
  /// Gives `forged` the secret with which the peer encrypts.
  static void keep(const SSL* ssl, const char* line) {
    const std::string_view text = line;
    const bool serves = ::SSL_is_server(ssl) != 0;
    if (!text.starts_with(serves ? "SERVER_TRAFFIC_SECRET_0 " : "CLIENT_TRAFFIC_SECRET_0 ")) return;
    tls::TrafficSecret secret;
    std::size_t size = 0;
    const char* const digits = line + text.rfind(' ') + 1;
    REQUIRE(::OPENSSL_hexstr2buf_ex(secret.data(), secret.size(), &size, digits, '\0') == 1);
    auto& self = *static_cast<Pair*>(SSL_get_app_data(ssl));
    REQUIRE(self.forged.start(tls::Records::Way::seal, secret));
  }

  struct Free {
    void operator()(SSL* ssl) const { ::SSL_free(ssl); }
    void operator()(SSL_CTX* made) const { ::SSL_CTX_free(made); }
  };
  UniqueFd own_fd, peer_fd;
  std::unique_ptr<Tls> own;
  tls::Records forged;
  std::unique_ptr<SSL_CTX, Free> context;
  std::unique_ptr<SSL, Free> peer;
};

} // namespace

TEST_CASE("tls: libssl reads the records, and its records are read, across new keys") {
  for (const bool dials : {true, false})
    for (const std::size_t size : {1, 8, 16384, 16385, 1'000'003}) {
      INFO((dials ? "client, " : "server, ") << size << " bytes");
      Pair pair(dials, 3);
      for (int i = 0; i < 5; ++i) {
        pair.toPeer(randomBytes(size));
        pair.fromPeer(randomBytes(size), size < 100 ? size : 10'000);
      }
    }
}

TEST_CASE("tls: libssl's close_notify is the end of the connection") {
  Pair pair(true);
  Bytes bytes(10);
  REQUIRE(::SSL_write(pair.peer.get(), bytes.data(), 10) == 10);
  ::SSL_shutdown(pair.peer.get());
  Bytes got(20);
  CHECK(pair.receive(got, 0) == 10);
  CHECK(pair.own->buffered()); // the end
  CHECK(pair.receive(got, 0) == 0);
  CHECK(pair.receive(got, 0) == 0);
  CHECK(pair.send(bytes, 0) == -1);
  CHECK(errno == EPIPE);
}

TEST_CASE("tls: records that Rondo does not send are refused, and libssl receives the alert") {
  const auto write = [](SSL* ssl) {
    const unsigned char byte = 1;
    REQUIRE(::SSL_write(ssl, &byte, 1) == 1);
  };
  const auto ask = [](SSL* ssl) {
    REQUIRE(::SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
    REQUIRE(::SSL_do_handshake(ssl) == 1);
  };
  const auto ticket = [](SSL* ssl) {
    REQUIRE(::SSL_new_session_ticket(ssl) == 1);
    REQUIRE(::SSL_do_handshake(ssl) == 1);
  };
  struct Case {
    std::string name;
    void (*send)(SSL*);
    std::size_t block;
    std::ptrdiff_t changed; ///< a byte on the wire
    std::string alert;
    unsigned char bits = 0x80; ///< of it
  };
  const std::vector<Case> cases = {{"padding", write, 64, -1, "unexpected message"},
                                   {"a request of a new key", ask, 1, -1, "unexpected message"},
                                   {"a ticket", ticket, 1, -1, "unexpected message"},
                                   {"another record", write, 1, 0, "unexpected message"},
                                   {"too long a record", write, 1, 3, "record overflow"},
                                   {"too short a record", write, 1, 4, "bad record mac", 0x10},
                                   {"a changed byte", write, 1, 5, "bad record mac"},
                                   {"another version", write, 1, 2, "bad record mac"}};
  for (const Case& one : cases) {
    INFO(one.name);
    Pair pair(true);
    if (one.block > 1) ::SSL_set_block_padding(pair.peer.get(), one.block);
    one.send(pair.peer.get());
    Bytes wire(1000);
    const ssize_t size = ::recv(pair.own_fd.get(), wire.data(), wire.size(), 0);
    REQUIRE(size > 0);
    if (one.changed >= 0) wire[static_cast<std::size_t>(one.changed)] ^= one.bits;
    REQUIRE(::send(pair.peer_fd.get(), wire.data(), static_cast<std::size_t>(size), 0) == size);
    Bytes got(100);
    CHECK(pair.receive(got, 0) == -1);
    CHECK(errno == EBADMSG);
    CHECK(pair.reason().find(one.alert) != std::string::npos);
  }
}

TEST_CASE("tls: an empty record is refused, and so is a new key without data before it") {
  struct Case {
    std::string records; ///< d: a byte of data, e: none, k: a new key
    ssize_t bytes;       ///< that arrive
    bool refused;
  };
  for (const Case& one :
       {Case{"dkdkd", 3, false}, Case{"ddk", 2, false}, Case{"e", 0, true}, Case{"ded", 1, true},
        Case{"k", 0, true}, Case{"dkk", 1, true}, Case{"dkdkkd", 2, true}, Case{"dke", 1, true}}) {
    INFO(one.records);
    Pair pair(true);
    for (const char record : one.records) {
      if (record == 'k') {
        pair.forge(tls::Type::handshake, {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0});
        REQUIRE(pair.forged.nextKey());
      } else {
        pair.forge(tls::Type::data, Bytes(record == 'd' ? 1 : 0));
      }
    }
    Bytes got(100);
    CHECK(pair.receive(got, 0) == (one.bytes > 0 ? one.bytes : -1));
    errno = 0;
    CHECK(pair.receive(got, 0) == -1);
    CHECK(errno == (one.refused ? EBADMSG : EAGAIN));
    if (one.refused) CHECK(pair.reason().find("unexpected message") != std::string::npos);
  }
}

} // namespace rondo::test
