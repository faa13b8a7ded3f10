// Stores and loads integers as little-endian bytes, on any machine.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace rondo::base {

/// Swaps the bytes if the machine is big-endian. On a little-endian machine it returns the value
/// at once: compilers turn the general loop into a hundred instructions if several numbers
/// follow each other.
template <std::unsigned_integral T>
constexpr T littleEndian(T value) {
  if constexpr (std::endian::native == std::endian::little) return value;
  T turned = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    turned = static_cast<T>(turned << 8 | (value >> (8 * i) & 0xff));
  return turned;
}

/// Writes sizeof(T) bytes; any alignment.
template <std::unsigned_integral T>
void storeLittleEndian(std::byte* to, T value) {
  const T bytes = littleEndian(value);
  std::memcpy(to, &bytes, sizeof(T));
}

template <std::unsigned_integral T>
T loadLittleEndian(const std::byte* from) {
  T bytes;
  std::memcpy(&bytes, from, sizeof(T));
  return littleEndian(bytes);
}

} // namespace rondo::base
