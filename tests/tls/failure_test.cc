// Proves: after a failed handshake, and after libcrypto has failed, a connection neither sends nor
// receives, and says why.
#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bootstrap/link.h"
#include "net/event_loop.h"
#include "net/peers.h"
#include "net/tls.h"
#include "net/tls/records.h"
#include "support/test.h"
#include "tls/ends.h"

namespace rondo::test {
namespace {

using namespace net;

/// Of calls that succeed before one fails; -1: all succeed.
std::atomic<int> updates{-1}, derivations{-1};

bool fails(std::atomic<int>& left) { return left >= 0 && left.fetch_sub(1) == 0; }

} // namespace

// The module calls these instead of libcrypto's.
extern "C" __attribute__((visibility("default"))) int EVP_CipherUpdate(
    EVP_CIPHER_CTX* context, unsigned char* out, int* written, const unsigned char* in, int size) {
  static const auto real =
      reinterpret_cast<decltype(&EVP_CipherUpdate)>(::dlsym(RTLD_NEXT, "EVP_CipherUpdate"));
  return fails(updates) ? 0 : real(context, out, written, in, size);
}

extern "C" __attribute__((visibility("default"))) int EVP_KDF_derive(EVP_KDF_CTX* context,
                                                                     unsigned char* key,
                                                                     std::size_t size,
                                                                     const OSSL_PARAM* parameters) {
  static const auto real =
      reinterpret_cast<decltype(&EVP_KDF_derive)>(::dlsym(RTLD_NEXT, "EVP_KDF_derive"));
  return fails(derivations) ? 0 : real(context, key, size, parameters);
}

namespace {

/// One direction, and memory for a record and its content.
struct Side {
  explicit Side(tls::Records::Way way) {
    tls::TrafficSecret secret;
    secret.fill(1);
    REQUIRE(records.start(way, secret));
  }
  tls::Place place() const { return tls::Place(std::span(&piece, 1)); }
  bool seal() {
    tls::Place from = place();
    return records.seal(tls::Type::data, from, content.size(), wire.data());
  }
  bool open(const Side& from) {
    tls::Type type{};
    return records.open(from.wire.data(), place(), type);
  }
  tls::Records records;
  std::array<unsigned char, 10> content{};
  std::array<unsigned char, 10 + tls::kAddedBytes> wire{};
  const iovec piece{content.data(), content.size()};
};

constexpr auto kSeal = tls::Records::Way::seal, kOpen = tls::Records::Way::open;

} // namespace

TEST_CASE("tls: a direction in which libcrypto has failed seals and opens nothing more") {
  for (const int succeed : {0, 1, 2}) { // for the header, the content and its type
    INFO(succeed);
    Side sealing(kSeal), good(kSeal), opening(kOpen);
    updates = succeed;
    CHECK_FALSE(sealing.seal());
    CHECK(updates == -1);
    CHECK_FALSE(sealing.records.started());
    CHECK_FALSE(sealing.seal());
    CHECK_FALSE(sealing.records.nextKey());
    REQUIRE(good.seal());
    opening.content.fill(7);
    updates = succeed;
    CHECK_FALSE(opening.open(good));
    CHECK(updates == -1);
    CHECK_FALSE(opening.records.started());
    for (const unsigned char one : opening.content) CHECK((one == 7 || one == 0));
    CHECK_FALSE(opening.open(good));
  }
  for (const int succeed : {0, 1, 2}) { // for the secret, the key and its constant
    INFO(succeed);
    Side sealing(kSeal);
    REQUIRE(sealing.seal());
    derivations = succeed;
    CHECK_FALSE(sealing.records.nextKey());
    CHECK(derivations == -1);
    CHECK(sealing.records.number() == 1);
    CHECK_FALSE(sealing.records.started());
    CHECK_FALSE(sealing.seal());
  }
}

TEST_CASE("tls: a record that does not open is told from a failure of libcrypto") {
  Side sealing(kSeal), opening(kOpen);
  REQUIRE(sealing.seal());
  sealing.wire.back() ^= 1;
  CHECK_FALSE(opening.open(sealing));
  CHECK(opening.records.started());
}

namespace {

ssize_t send(Socket& from, Bytes bytes) {
  return from.tls()->send(cut(bytes, {bytes.size()}, 0, 1));
}
ssize_t receive(Socket& at) {
  Bytes bytes(100);
  return at.tls()->receive(cut(bytes, {bytes.size()}, 0, 1));
}
/// Bytes that have arrived at the socket, encrypted or not; -1: none, see errno.
ssize_t arrived(Socket& at) {
  Bytes bytes(1000);
  return ::recv(at.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
}
void checkFailed(Socket& socket) {
  for (int i = 0; i < 2; ++i) {
    CHECK(send(socket, Bytes(10)) == -1);
    CHECK(errno == EPROTO);
    CHECK(receive(socket) == -1);
    CHECK(errno == EPROTO);
  }
}

} // namespace

TEST_CASE("tls: before the handshake is done and after it has failed nothing is sent") {
  Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
  checkFailed(ends.accepter);
  REQUIRE(ends.dialer.tls()->handshake() == Tls::Progress::wants_to_read);
  // It encrypts its last message and has the keys for what follows. Its alert uses one of them.
  REQUIRE(ends.accepter.tls()->handshake() == Tls::Progress::wants_to_read);
  checkFailed(ends.accepter);
  REQUIRE(::send(ends.dialer.get(), "not a record", 12, 0) == 12);
  REQUIRE(ends.accepter.tls()->handshake() == Tls::Progress::failed);
  const std::string trouble = ends.accepter.tls()->trouble();
  CHECK(trouble != "");
  CHECK(arrived(ends.dialer) > 0);
  checkFailed(ends.accepter);
  CHECK(arrived(ends.dialer) == -1);
  CHECK(errno == EAGAIN);
  CHECK(ends.accepter.tls()->trouble() == trouble);
}

TEST_CASE("tls: if libcrypto fails, send() and receive() fail with EPROTO, not as if tampered") {
  Ends ends(keyOf(1), keyOf(1), 1);
  REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
  SECTION("it encrypts") {
    updates = 1;
    checkFailed(ends.dialer);
    CHECK(arrived(ends.accepter) == -1);
    CHECK(errno == EAGAIN);
  }
  SECTION("it decrypts") {
    REQUIRE(send(ends.dialer, Bytes(10)) == 10);
    updates = 1;
    CHECK(receive(ends.accepter) == -1);
    CHECK(errno == EPROTO);
    checkFailed(ends.accepter);
  }
  SECTION("it makes the next key") {
    for (int i = 0; i < 2; ++i) REQUIRE(send(ends.dialer, Bytes(10)) == 10);
    derivations = 0;
    CHECK(receive(ends.accepter) == 10);
    CHECK(receive(ends.accepter) == -1);
    CHECK(errno == EPROTO);
    checkFailed(ends.accepter);
  }
  CHECK(updates == -1);
  CHECK(derivations == -1);
}

TEST_CASE("tls: a control connection ends when libcrypto fails, also if it waits for room") {
  using bootstrap::Link;
  namespace frames = bootstrap::frames;
  const auto loop = EventLoop::get();
  for (const bool waits : {false, true}) {
    INFO(waits);
    Ends ends(keyOf(1), keyOf(1), tls::kRecordsPerKey);
    REQUIRE(ends.shake() == std::pair(Tls::Progress::done, Tls::Progress::done));
    std::shared_ptr<Link> link;
    std::string why;
    std::atomic<bool> closed{false};
    loop->call([&] {
      link = Link::open(loop, std::move(ends.dialer), keyOf(2), Link::Side::hub,
                        {{}, [&](const std::string& text) {
                           why = text;
                           closed = true;
                         }});
      for (std::uint64_t i = 0; waits && i < 10'000; ++i)
        link->send(frames::Type::ask, frames::Ask{i, 0});
      updates = 0;
      if (!waits) link->send(frames::Type::ask, frames::Ask{1, 0});
    });
    CHECK(eventually([&] {
      if (waits) updates = 0; // connections of earlier cases may have met the failure
      while (arrived(ends.accepter) > 0) continue;
      return closed.load();
    }));
    loop->call([&] { link.reset(); });
    CHECK(why.find("failed in TLS") != std::string::npos);
    updates = -1;
  }
}

} // namespace rondo::test
