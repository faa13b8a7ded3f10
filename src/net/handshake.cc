// Encodes and decodes the handshake's messages, and computes its proofs.
#include "net/handshake.h"

#include <algorithm>
#include <string>

#include "base/codec.h"
#include "base/random.h"
#include "rondo/error.h"

namespace rondo::net {

Secret Secret::random() {
  Secret secret;
  secret.present = true;
  base::randomBytes(secret.bytes);
  return secret;
}

namespace handshake {
namespace {

constexpr std::uint32_t kHelloMagic = 0x48444e52; // "RNDH" on the wire
constexpr std::uint32_t kReplyMagic = 0x52444e52; // "RNDR"
constexpr std::uint16_t kVersion = 1;
constexpr std::uint16_t kTlsFlag = 1;

template <std::size_t N>
std::array<std::byte, N> fixed(const base::Writer& writer) {
  std::array<std::byte, N> out{};
  if (writer.bytes().size() != N) {
    throw Error(ErrorCode::transport, "internal error: a handshake message has the wrong size");
  }
  std::copy(writer.bytes().begin(), writer.bytes().end(), out.begin());
  return out;
}

/// Writes magic, version and a second 16-bit field: the size of a hello, the result of a reply.
void head(base::Writer& writer, std::uint32_t magic, std::uint16_t field) {
  writer.u32(magic);
  writer.u16(kVersion);
  writer.u16(field);
}

std::uint16_t checkHead(base::Reader& reader, std::uint32_t magic) {
  if (reader.u32() != magic) reader.fail("does not start with Rondo's magic number");
  if (const auto version = reader.u16(); version != kVersion) {
    reader.fail("is of version " + std::to_string(version) + ", wanted " +
                std::to_string(kVersion));
  }
  return reader.u16();
}

} // namespace

HelloBytes encodeHello(const HelloMessage& message) {
  const Hello& hello = message.hello;
  base::Writer writer;
  head(writer, kHelloMagic, kHelloBytes);
  writer.u8(static_cast<std::uint8_t>(hello.purpose));
  writer.u8(message.passed);
  writer.u16(hello.tls ? kTlsFlag : 0);
  writer.u64(hello.job);
  writer.i32(hello.rank);
  writer.i32(hello.size);
  writer.u64(hello.communicator);
  writer.i32(hello.src);
  writer.i32(hello.dst);
  writer.i32(hello.index);
  writer.i32(hello.part);
  writer.u32(0);
  writer.raw(message.nonce);
  return fixed<kHelloBytes>(writer);
}

HelloMessage decodeHello(std::span<const std::byte> bytes) {
  base::Reader reader(bytes, "a handshake's hello");
  if (checkHead(reader, kHelloMagic) != kHelloBytes) reader.fail("announces a wrong size");
  HelloMessage message;
  Hello& hello = message.hello;
  const std::uint8_t purpose = reader.u8();
  if (purpose > static_cast<std::uint8_t>(Hello::Purpose::data)) {
    reader.fail("has an unknown purpose");
  }
  hello.purpose = static_cast<Hello::Purpose>(purpose);
  message.passed = reader.u8();
  if (message.passed > kMaxPassed) reader.fail("announces too many descriptors");
  const std::uint16_t flags = reader.u16();
  if (flags > kTlsFlag) reader.fail("has reserved bytes set");
  hello.tls = flags == kTlsFlag;
  hello.job = reader.u64();
  hello.rank = reader.i32();
  hello.size = reader.i32();
  hello.communicator = reader.u64();
  hello.src = reader.i32();
  hello.dst = reader.i32();
  hello.index = reader.i32();
  hello.part = reader.i32();
  if (hello.size < 0 || hello.rank < 0 || (hello.size > 0 && hello.rank >= hello.size) ||
      hello.src < 0 || hello.dst < 0 || hello.index < 0 || hello.part < 0) {
    reader.fail("has a rank or an index out of range");
  }
  if (reader.u32() != 0) reader.fail("has reserved bytes set");
  reader.raw(std::span<std::byte>(message.nonce));
  reader.finish();
  return message;
}

bool otherVersion(std::span<const std::byte> hello) {
  base::Reader reader(hello, "a handshake's hello");
  return reader.u32() == kHelloMagic && reader.u16() != kVersion;
}

ReplyBytes encodeReply(const ReplyMessage& message) {
  base::Writer writer;
  head(writer, kReplyMagic, static_cast<std::uint16_t>(message.result));
  writer.raw(message.nonce);
  writer.raw(message.proof);
  return fixed<kReplyBytes>(writer);
}

ReplyMessage decodeReply(std::span<const std::byte> bytes) {
  base::Reader reader(bytes, "a handshake's reply");
  const std::uint16_t verdict = checkHead(reader, kReplyMagic);
  if (verdict > static_cast<std::uint16_t>(HandshakeResult::no_tls)) {
    reader.fail("has an unknown result");
  }
  ReplyMessage message;
  message.result = static_cast<HandshakeResult>(verdict);
  reader.raw(std::span<std::byte>(message.nonce));
  reader.raw(std::span<std::byte>(message.proof));
  reader.finish();
  return message;
}

Key keyOf(const Secret& secret) { return secret.present ? secret.bytes : Key{}; }

Mac accepterProof(const Key& key, const HelloBytes& hello, const Nonce& nonce) {
  return hmacSha256(key, "rondo accepter 1", {hello, nonce});
}
Mac dialerProof(const Key& key, const HelloBytes& hello, const Nonce& nonce) {
  return hmacSha256(key, "rondo dialer 1", {hello, nonce});
}
Mac sessionKey(const Key& key, const HelloBytes& hello, const Nonce& nonce) {
  return hmacSha256(key, "rondo session 1", {hello, nonce});
}
Mac tlsKey(const Key& key, const HelloBytes& hello, const Nonce& nonce) {
  return hmacSha256(key, "rondo tls 1", {hello, nonce});
}

void requireSecret(const Secret& secret, const SocketAddress& address, const char* what) {
  if (secret.present || address.loopback()) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(what) + " " + address.text() +
                  " needs a job secret (RONDO_SECRET_FILE, or a unique id that carries one): "
                  "without one only loopback addresses are used");
}

} // namespace handshake
} // namespace rondo::net
