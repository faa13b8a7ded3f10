// The header of every UCX message: 28 bytes, or up to 64 for the first messages of a channel.
//
// A channel begins with a hello from its sender and a welcome from its receiver. Both prove that
// their rank knows the job's secret. Each contains a key, a random number. Later messages name
// their channel by this key, so a process that has not seen it cannot forge one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/little_endian.h"
#include "net/hmac.h"
#include "transports/registry.h"
#include "transports/transport.h"

namespace rondo::transport::ucx {

enum class Word : std::uint32_t { body = 1, credit, hello, welcome, goodbye, closed };

inline constexpr std::size_t kShortHeader = 28;
inline constexpr std::size_t kProofBytes = 16;

/// Numbers are little-endian. The fields of a body: its number in the channel, the receiver's key,
/// the call's signature, the body's checksum. Of a credit: the number of bodies that the receiver
/// has received, the sender's key, nothing, nothing. Of `closed` (the receiver will receive no more
/// on this channel): nothing, the sender's key, nothing, nothing.
struct Short {
  Word word = Word::body;
  std::uint32_t number = 0;
  std::uint64_t key = 0, signature = 0;
  std::uint32_t checksum = 0;

  std::array<std::byte, kShortHeader> encode() const {
    std::array<std::byte, kShortHeader> out;
    base::storeLittleEndian(out.data(), static_cast<std::uint32_t>(word));
    base::storeLittleEndian(out.data() + 4, number);
    base::storeLittleEndian(out.data() + 8, key);
    base::storeLittleEndian(out.data() + 16, signature);
    base::storeLittleEndian(out.data() + 24, checksum);
    return out;
  }
  static Short decode(std::span<const std::byte, kShortHeader> in) {
    return {static_cast<Word>(base::loadLittleEndian<std::uint32_t>(in.data())),
            base::loadLittleEndian<std::uint32_t>(&in[4]),
            base::loadLittleEndian<std::uint64_t>(&in[8]),
            base::loadLittleEndian<std::uint64_t>(&in[16]),
            base::loadLittleEndian<std::uint32_t>(&in[24])};
  }
};

/// A hello or a welcome, or a goodbye. A goodbye, from a rank that closes in an orderly way, has no
/// index and no keys.
struct Greeting {
  static constexpr std::size_t kBytes = 32 + kProofBytes;
  using Bytes = std::array<std::byte, kBytes>;

  Word word = Word::hello;
  /// Of the channel; goodbye: the closing rank, and the peer.
  std::int32_t src = 0, dst = 0, index = 0;
  std::uint64_t sender_key = 0, receiver_key = 0;

  Bytes encode(const Context& context) const;
  /// Whether `in` is a greeting from a process that knows the secret.
  bool decode(std::span<const std::byte> in, const Context& context);
};

/// An authentication code of the bytes, for this job and communicator, which needs the secret.
net::Mac proofOf(const Context& context, std::string_view what, std::span<const std::byte> bytes);

} // namespace rondo::transport::ucx
