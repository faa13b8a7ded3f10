// The common part of the ends over one socket and over several.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "rondo/error.h"
#include "transports/tcp/ends.h"
#include "transports/tcp/socket_io.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport::tcp {

/// Consecutive little-endian words, and a CRC32C of them.
template <std::size_t words>
std::array<std::byte, 8 * words + kSealBytes> encodeWords(
    const std::array<std::uint64_t, words>& values, bool sealed) {
  std::array<std::byte, 8 * words + kSealBytes> out;
  for (std::size_t i = 0; i < words; ++i) base::storeLittleEndian(&out[8 * i], values[i]);
  const std::uint64_t seal = sealed ? base::crc32c(0, out.data(), 8 * words) : 0;
  base::storeLittleEndian(&out[8 * words], seal);
  return out;
}

inline std::uint64_t decodeWord(const std::byte* from) {
  return base::loadLittleEndian<std::uint64_t>(from);
}

/// The size and the checksum of a body, in one word.
inline std::uint64_t sizeWord(const MessageHeader& header) {
  return header.bytes | std::uint64_t{header.checksum} << 32;
}
/// Throws Error(transport) for a body that is larger than a slot. Without checksums there are none.
inline MessageHeader decodeHeader(std::uint64_t signature, std::uint64_t size_word,
                                  const SocketSettings& settings) {
  requireSlot(settings.sealed ? size_word & 0xffff'ffff : size_word, settings);
  return {signature, size_word & 0xffff'ffff, static_cast<std::uint32_t>(size_word >> 32)};
}

/// Throws Error(transport) with the peer as culprit if a header has the wrong CRC32C.
inline void requireSeal(const std::byte* header, std::size_t bytes,
                        const SocketSettings& settings) {
  if (!settings.sealed || decodeWord(header + bytes) == base::crc32c(0, header, bytes)) return;
  throw Error(ErrorCode::transport,
              settings.channel + ": the header of a message of rank " +
                  std::to_string(settings.peer) + " is damaged (its CRC32C differs)",
              settings.peer);
}

/// The body of a message that is being sent.
struct OutgoingBody {
  std::size_t bytes = 0;
  /// Keeps its capacity, so that sending does not allocate.
  std::vector<ConstBytes> pieces;

  /// Copies a small body to `small`, which has kGatherBytes.
  void set(std::size_t size, std::span<const ConstBytes> body, std::byte* small) {
    assert(size == std::accumulate(
                       body.begin(), body.end(), std::size_t{0},
                       [](std::size_t sum, const ConstBytes& piece) { return sum + piece.size; }));
    bytes = size;
    pieces.assign(body.begin(), body.end());
    if (bytes == 0 || bytes > kGatherBytes) return;
    std::byte* to = small;
    for (const ConstBytes& piece : body)
      if (piece.size > 0)
        to = static_cast<std::byte*>(std::memcpy(to, piece.data, piece.size)) + piece.size;
    pieces.assign(1, {small, bytes});
  }

  bool overlaps(const void* data, std::size_t size) const {
    // Compared as numbers, because the ranges may belong to different objects.
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    for (const ConstBytes& piece : pieces) {
      const auto from = reinterpret_cast<std::uintptr_t>(piece.data);
      if (from < begin + size && begin < from + piece.size) return true;
    }
    return false;
  }
};

} // namespace rondo::transport::tcp
