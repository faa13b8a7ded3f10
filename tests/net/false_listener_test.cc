// Proves: a dial does not accept a listener that does not know the secret.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>

#include "base/random.h"
#include "net/peers.h"
#include "rondo/error.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace base;

enum class Trick { random_bytes, echo, wrong_proof, cut_reply, silence, bad_welcome, late_close };

/// How a false listener answers a dialer's hello.
void answer(RawPeer& peer, Trick trick, const handshake::HelloBytes& hello, const Key& key,
            std::mt19937& random) {
  handshake::ReplyMessage reply;
  randomBytes(reply.nonce);
  reply.proof = handshake::accepterProof(key, hello, reply.nonce);
  switch (trick) {
    case Trick::random_bytes: {
      std::array<std::byte, 500> bytes;
      for (std::byte& one : bytes) one = static_cast<std::byte>(random());
      peer.send(bytes);
      break;
    }
    case Trick::echo: peer.send(hello); break;
    case Trick::wrong_proof:
      reply.proof = handshake::dialerProof(key, hello, reply.nonce);
      peer.send(handshake::encodeReply(reply));
      break;
    case Trick::cut_reply: {
      const handshake::ReplyBytes whole = handshake::encodeReply(reply);
      peer.send(std::span(whole).first(whole.size() - 1));
      peer.fd.reset();
      break;
    }
    case Trick::silence: break;
    case Trick::bad_welcome:
      peer.send(handshake::encodeReply(reply));
      CHECK(peer.receive(handshake::kProofBytes).size() == handshake::kProofBytes);
      peer.send(std::span(hello).first(1));
      break;
    case Trick::late_close:
      peer.send(handshake::encodeReply(reply));
      CHECK(peer.receive(handshake::kProofBytes).size() == handshake::kProofBytes);
      peer.fd.reset();
      break;
  }
}

} // namespace

TEST_CASE("a dial does not accept a false listener") {
  const NoLeak check;
  const SocketAddress any = SocketAddress::parse("127.0.0.1:0", "");
  const UniqueFd listener(RawPeer::unconnected(any));
  const NativeAddress native = toNative(any);
  REQUIRE(::bind(listener.get(), native.get(), native.length) == 0);
  REQUIRE(::listen(listener.get(), 16) == 0);
  Dial::Settings settings;
  settings.address = localAddress(listener.get());
  settings.secret = Secret::random();
  settings.hello.job = kJob;
  std::mt19937 random(21);
  const Key key = handshake::keyOf(settings.secret);

  struct Case {
    Trick trick;
    ErrorCode code;
  };
  for (const Case& c :
       {Case{Trick::random_bytes, ErrorCode::transport}, Case{Trick::echo, ErrorCode::transport},
        Case{Trick::wrong_proof, ErrorCode::transport}, Case{Trick::cut_reply, ErrorCode::timeout},
        Case{Trick::silence, ErrorCode::timeout}, Case{Trick::bad_welcome, ErrorCode::transport},
        Case{Trick::late_close, ErrorCode::timeout}}) {
    CAPTURE(static_cast<int>(c.trick));
    const bool brief = c.code == ErrorCode::timeout;
    settings.deadline = Clock::now() + (brief ? 2s : 20s);
    Dial dial(settings);
    RawPeer peer(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    handshake::HelloBytes hello{};
    const auto got = peer.receive(hello.size());
    REQUIRE(got.size() == hello.size());
    std::copy(got.begin(), got.end(), hello.begin());
    answer(peer, c.trick, hello, key, random);
    try {
      dial.wait();
      FAIL("the false listener was believed");
    } catch (const Error& error) {
      CHECK(error.code() == c.code);
    }
    // Further attempts of the same dial may wait in the backlog.
    ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    while (UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
    }
    ::fcntl(listener.get(), F_SETFL, 0);
  }
}

} // namespace rondo::test
