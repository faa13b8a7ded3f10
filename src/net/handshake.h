// The handshake's messages and proofs, independent of sockets.
//
//   dialing side                                    accepting side
//   hello: fields, nonce            ------------>   checks form and job
//                                   <------------   reply: result, nonce, proof
//   checks the proof
//   proof (and descriptors)         ------------>   checks proof and descriptors
//                            [TLS handshake]
//                                   <------------   welcome: one byte
//
// All messages have a fixed size. A proof is an HMAC over its sender's role, the whole hello and
// the accepting side's nonce. A recorded proof can therefore not be replayed, reflected, or used on
// another connection.
//
// The hello says whether the connection uses TLS. TLS begins after the proofs: the listener knows
// from the hello which job's secret to use, and can refuse TLS by its reply. Both proofs cover the
// hello, so the choice cannot be changed without the secret. TLS's pre-shared key is an HMAC of the
// same data as a proof, with another label.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/connection.h"
#include "net/hmac.h"

namespace rondo::net::handshake {

using Nonce = std::array<std::byte, 32>;

inline constexpr std::size_t kHelloBytes = 88;
inline constexpr std::size_t kReplyBytes = 72;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::byte kWelcome{'W'};
inline constexpr std::size_t kMaxPassed = 4;
static_assert(kHelloBytes <= 128 && kReplyBytes <= 128);

using HelloBytes = std::array<std::byte, kHelloBytes>;
using ReplyBytes = std::array<std::byte, kReplyBytes>;

struct HelloMessage {
  Hello hello;
  std::uint8_t passed = 0; ///< number of descriptors that follow with the proof
  Nonce nonce{};
};

enum class HandshakeResult : std::uint8_t { go_on, wrong_job, no_tls };

struct ReplyMessage {
  HandshakeResult result = HandshakeResult::go_on;
  Nonce nonce{};
  Mac proof{}; ///< zero unless the result is go_on
};

HelloBytes encodeHello(const HelloMessage& message);
/// Throws Error(transport) for bytes that encodeHello() does not produce.
HelloMessage decodeHello(std::span<const std::byte> bytes);
/// Whether another version of Rondo has sent this hello. A reply tells it this version.
bool otherVersion(std::span<const std::byte> hello);
ReplyBytes encodeReply(const ReplyMessage& message);
ReplyMessage decodeReply(std::span<const std::byte> bytes);

/// All zero without a secret, so the proofs fail if only one end has a secret.
Key keyOf(const Secret& secret);
Mac accepterProof(const Key& key, const HelloBytes& hello, const Nonce& nonce);
Mac dialerProof(const Key& key, const HelloBytes& hello, const Nonce& nonce);
Mac sessionKey(const Key& key, const HelloBytes& hello, const Nonce& nonce);
Mac tlsKey(const Key& key, const HelloBytes& hello, const Nonce& nonce);

/// Throws Error(invalid_argument) for an address that other machines can reach, without a secret.
void requireSecret(const Secret& secret, const SocketAddress& address, const char* what);

} // namespace rondo::net::handshake
