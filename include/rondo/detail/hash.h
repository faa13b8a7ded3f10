// Hash functions, one of each kind for the whole project, also for code that includes only
// include/. Not part of the public API.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rondo::detail {

inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

/// The finisher of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every
/// bit of `z`, and different inputs give different results.
constexpr std::uint64_t finish(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// The result of SplitMix64 for this state. It is not zero for zero.
constexpr std::uint64_t mix(std::uint64_t state) { return finish(state + kGoldenRatio); }

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

/// FNV-1a, byte by byte: for short keys.
inline std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = kFnvBasis;
  for (std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * kFnvPrime;
  return hash;
}

/// A hash of large memory: equal for equal bytes, and almost surely different for different ones.
/// FNV-1a over words of 8 bytes in four lanes, whose multiplications overlap; then over the lanes,
/// the remaining bytes and the length.
class HashStream {
 public:
  /// Adds the next part; the size of each part but the last is a multiple of 32 bytes.
  void add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    bytes_ += bytes;
    std::array<std::uint64_t, 4> lanes = lanes_; // a copy, which `data` cannot alias
    for (; bytes >= sizeof lanes; bytes -= sizeof lanes, at += sizeof lanes) {
      std::array<std::uint64_t, 4> words;
      std::memcpy(words.data(), at, sizeof words);
      for (std::size_t i = 0; i < 4; ++i) {
        lanes[i] = (lanes[i] ^ words[i]) * kFnvPrime;
        // A product carries upwards only; without this step, high bits would never affect low ones.
        lanes[i] ^= lanes[i] >> 32;
      }
    }
    lanes_ = lanes;
    left_ = bytes;
    if (bytes > 0) std::memcpy(rest_.data(), at, bytes);
  }

  std::uint64_t hash() const {
    std::uint64_t hash = kFnvBasis;
    const auto add = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * kFnvPrime;
      hash ^= hash >> 32;
    };
    for (std::uint64_t lane : lanes_) add(lane);
    for (std::size_t i = 0; i < left_; ++i) add(rest_[i]);
    add(bytes_);
    return hash;
  }

 private:
  std::array<std::uint64_t, 4> lanes_ = {kFnvBasis, kFnvBasis + 1, kFnvBasis + 2, kFnvBasis + 3};
  std::array<unsigned char, 32> rest_{}; ///< bytes after the last full 32
  std::size_t left_ = 0, bytes_ = 0;
};

/// The hash of one range of memory.
inline std::uint64_t hashBytes(const void* data, std::size_t bytes) {
  HashStream stream;
  stream.add(data, bytes);
  return stream.hash();
}

} // namespace rondo::detail
