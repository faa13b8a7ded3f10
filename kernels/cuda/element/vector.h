// Vectors of 16 bytes at any address: the unit in which the kernels move data, on the device and on
// the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/element/formats.h"

namespace rondo::kernels::cuda {

/// The most that one load or store instruction moves.
struct alignas(16) Vector {
  std::uint32_t words[4];
};

/// Loads and stores a T at an address that is a multiple of its size, in ordinary memory. Kernels
/// on memory that others write at the same time use another class of accesses.
struct PlainAccess {
  template <typename T>
  static RONDO_HOST_DEVICE T load(const std::byte* from) {
#if RONDO_DEVICE_PASS
    return *reinterpret_cast<const T*>(from);
#else
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
#endif
  }
  template <typename T>
  static RONDO_HOST_DEVICE void store(std::byte* to, T value) {
#if RONDO_DEVICE_PASS
    *reinterpret_cast<T*>(to) = value;
#else
    std::memcpy(to, &value, sizeof(T));
#endif
  }
};

RONDO_HOST_DEVICE unsigned misalignment(const void* address) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) % sizeof(Vector));
}

/// Number of elements before the first one that is aligned to a vector, at most `count`; 0 if none
/// is aligned.
template <typename Element>
RONDO_HOST_DEVICE std::size_t elementsToAlignment(const void* address, std::size_t count) {
  const unsigned bytes = (0u - misalignment(address)) % sizeof(Vector);
  if (bytes % sizeof(Element) != 0) return 0;
  const std::size_t elements = bytes / sizeof(Element);
  return elements < count ? elements : count;
}

/// Bytes [begin, begin + 16) of two consecutive vectors; begin < 16. Uses selects, because an array
/// that is indexed at run time would be in local memory.
RONDO_HOST_DEVICE Vector extract(const Vector& low, const Vector& high, unsigned begin) {
  std::uint32_t w[8];
  RONDO_UNROLL
  for (int i = 0; i < 4; ++i) {
    w[i] = low.words[i];
    w[i + 4] = high.words[i];
  }
  RONDO_UNROLL
  for (int i = 0; i < 6; ++i) w[i] = begin & 8 ? w[i + 2] : w[i];
  RONDO_UNROLL
  for (int i = 0; i < 5; ++i) w[i] = begin & 4 ? w[i + 1] : w[i];
  const unsigned bits = 8 * (begin & 3);
  Vector result;
  RONDO_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t both = static_cast<std::uint64_t>(w[i + 1]) << 32 | w[i];
    result.words[i] = static_cast<std::uint32_t>(both >> bits);
  }
  return result;
}

/// Loads kCount vectors that are kStride bytes apart. kStride is a multiple of 16; as a constant it
/// costs no registers. If `from` is not aligned, the two aligned vectors around each are read, so
/// they must be readable. There is one branch for all vectors, so that the loads follow each other,
/// and none if the caller knows that they are aligned.
template <class Access, std::size_t kStride, bool kAligned, int kCount>
RONDO_HOST_DEVICE void loadVectors(const std::byte* from, Vector (&vectors)[kCount]) {
  const unsigned off = kAligned ? 0 : misalignment(from);
  if (off == 0) {
    RONDO_UNROLL
    for (int n = 0; n < kCount; ++n) vectors[n] = Access::template load<Vector>(from + n * kStride);
  } else {
    from -= off;
    RONDO_UNROLL
    for (int n = 0; n < kCount; ++n)
      vectors[n] = extract(Access::template load<Vector>(from + n * kStride),
                           Access::template load<Vector>(from + n * kStride + sizeof(Vector)), off);
  }
}

template <class Access, typename T>
RONDO_HOST_DEVICE void storePieces(std::byte* to, const Vector& vector) {
  constexpr int kPieces = 4 / sizeof(T);
  RONDO_UNROLL
  for (int i = 0; i < 4 * kPieces; ++i)
    Access::template store<T>(to + i * sizeof(T), static_cast<T>(vector.words[i / kPieces] >>
                                                                 (8 * sizeof(T) * (i % kPieces))));
}

/// Stores kCount vectors. If `to` is not aligned, stores the largest aligned pieces, so no other
/// bytes are written.
template <class Access, std::size_t kStride, bool kAligned, int kCount>
RONDO_HOST_DEVICE void storeVectors(std::byte* to, const Vector (&vectors)[kCount]) {
  const unsigned off = kAligned ? 0 : misalignment(to);
  RONDO_UNROLL
  for (int n = 0; n < kCount; ++n) {
    if (off == 0) {
      Access::template store<Vector>(to + n * kStride, vectors[n]);
    } else if (off % 4 == 0) {
      storePieces<Access, std::uint32_t>(to + n * kStride, vectors[n]);
    } else if (off % 2 == 0) {
      storePieces<Access, std::uint16_t>(to + n * kStride, vectors[n]);
    } else {
      storePieces<Access, std::uint8_t>(to + n * kStride, vectors[n]);
    }
  }
}

/// Load or store one element, byte by byte if its address is not a multiple of its size.
template <class Access, typename T>
RONDO_HOST_DEVICE T loadElement(const std::byte* from) {
  if (misalignment(from) % sizeof(T) == 0) return Access::template load<T>(from);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |=
        static_cast<T>(static_cast<T>(Access::template load<std::uint8_t>(from + i)) << (8 * i));
  return value;
}

template <class Access, typename T>
RONDO_HOST_DEVICE void storeElement(std::byte* to, T value) {
  if (misalignment(to) % sizeof(T) == 0) return Access::template store<T>(to, value);
  for (std::size_t i = 0; i < sizeof(T); ++i)
    Access::template store<std::uint8_t>(to + i, static_cast<std::uint8_t>(value >> (8 * i)));
}

/// The elements of a vector as values.
template <class F>
struct Lanes {
  static constexpr int kWords = sizeof(Vector) / sizeof(Word<F>);
  typename F::Value values[kWords][kPerWord<F>];
};

template <class F>
RONDO_HOST_DEVICE Lanes<F> unpackVector(const Vector& vector) {
  Lanes<F> lanes;
  if constexpr (Lanes<F>::kWords == 4) {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) unpack<F>(vector.words[i], lanes.values[i]);
  } else {
    RONDO_UNROLL
    for (int i = 0; i < 2; ++i)
      unpack<F>(static_cast<std::uint64_t>(vector.words[2 * i + 1]) << 32 | vector.words[2 * i],
                lanes.values[i]);
  }
  return lanes;
}

template <class F>
RONDO_HOST_DEVICE Vector packVector(const Lanes<F>& lanes) {
  Vector vector;
  if constexpr (Lanes<F>::kWords == 4) {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) vector.words[i] = pack<F>(lanes.values[i]);
  } else {
    RONDO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t word = pack<F>(lanes.values[i]);
      vector.words[2 * i] = static_cast<std::uint32_t>(word);
      vector.words[2 * i + 1] = static_cast<std::uint32_t>(word >> 32);
    }
  }
  return vector;
}

} // namespace rondo::kernels::cuda
