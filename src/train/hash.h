// A fingerprint of memory: equal on equal bytes, different on others as good as surely.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rondo::training {

/// FNV-1a over words of 8 bytes on four lanes, whose multiplications overlap; then over the lanes,
/// the bytes left over and the length.
inline std::uint64_t hashBytes(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325;
  const auto* at = static_cast<const unsigned char*>(data);
  std::array<std::uint64_t, 4> lanes = {kBasis, kBasis + 1, kBasis + 2, kBasis + 3};
  std::size_t left = bytes;
  for (; left >= sizeof lanes; left -= sizeof lanes, at += sizeof lanes) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), at, sizeof words);
    for (std::size_t i = 0; i < 4; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * kPrime;
      // A product carries upwards only: without this, high bits would never reach low ones.
      lanes[i] ^= lanes[i] >> 32;
    }
  }
  std::uint64_t hash = kBasis;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * kPrime;
    hash ^= hash >> 32;
  };
  for (std::uint64_t lane : lanes) mix(lane);
  for (; left > 0; --left) mix(*at++);
  mix(bytes);
  return hash;
}

} // namespace rondo::training
