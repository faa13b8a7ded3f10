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

#include "base/little_endian.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport::tcp {

/// Consecutive little-endian words.
template <std::size_t words>
std::array<std::byte, 8 * words> encodeWords(const std::array<std::uint64_t, words>& values) {
  std::array<std::byte, 8 * words> out;
  for (std::size_t i = 0; i < words; ++i) base::storeLittleEndian(&out[8 * i], values[i]);
  return out;
}

inline std::uint64_t decodeWord(const std::byte* from) {
  return base::loadLittleEndian<std::uint64_t>(from);
}

/// The body of a message that is being sent.
struct OutgoingBody {
  std::size_t bytes = 0;
  /// Keeps its capacity, so that sending does not allocate.
  std::vector<ConstBytes> pieces;
  std::array<std::byte, kGatherBytes> small; ///< a copy of a small body

  void set(std::size_t size, std::span<const ConstBytes> body) {
    assert(size == std::accumulate(
                       body.begin(), body.end(), std::size_t{0},
                       [](std::size_t sum, const ConstBytes& piece) { return sum + piece.size; }));
    bytes = size;
    pieces.assign(body.begin(), body.end());
    if (bytes == 0 || bytes > kGatherBytes) return;
    std::byte* to = small.data();
    for (const ConstBytes& piece : body)
      if (piece.size > 0)
        to = static_cast<std::byte*>(std::memcpy(to, piece.data, piece.size)) + piece.size;
    pieces.assign(1, {small.data(), bytes});
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
