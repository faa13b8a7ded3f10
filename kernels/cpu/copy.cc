// Copies one input to all outputs, which is the reduction of a single input. Also copies past the
// caches.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/families.h"
#include "kernels/reduce.h"

namespace rondo::kernels {
namespace {

/// Half of the smallest first-level cache in use (32 KiB), so that a block is still cached when it
/// is copied to the second output.
constexpr std::size_t kBlockBytes = 16 * 1024;

} // namespace

void copy(void* const* outputs, std::size_t output_count, const void* input, std::size_t bytes) {
  if (bytes == 0) return; // the pointers may be null
  const std::size_t block = output_count == 1 ? bytes : kBlockBytes;
  for (std::size_t begin = 0; begin < bytes; begin += block) {
    const std::size_t size = std::min(block, bytes - begin);
    const std::byte* from = static_cast<const std::byte*>(input) + begin;
    for (std::size_t j = 0; j < output_count; ++j) {
      if (outputs[j] == input) continue;
      std::memcpy(static_cast<std::byte*>(outputs[j]) + begin, from, size);
    }
  }
}

#if defined(__SSE2__)

namespace {

constexpr std::size_t kLine = 64; ///< of the caches

/// Copies whole groups of 256 bytes with non-temporal stores. `to` must be aligned to a cache line.
/// Loads a group before it stores it, so that its cache misses overlap. Returns the bytes copied.
std::size_t stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kGroup = 256; // 16 SSE registers
  std::size_t at = 0;
  for (; at + kGroup <= bytes; at += kGroup) {
    __m128i part[kGroup / sizeof(__m128i)];
    for (std::size_t i = 0; i < std::size(part); ++i)
      part[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    for (std::size_t i = 0; i < std::size(part); ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, part[i]);
  }
  return at;
}

/// The same with stores of 64 bytes, and in groups of 512 bytes.
[[gnu::target("avx512f")]] std::size_t streamWide(std::byte* to, const std::byte* from,
                                                  std::size_t bytes) {
  constexpr std::size_t kGroup = 8 * kLine;
  std::size_t at = 0;
  for (; at + kGroup <= bytes; at += kGroup) {
    __m512i part[kGroup / kLine];
    for (std::size_t i = 0; i < std::size(part); ++i)
      part[i] = _mm512_loadu_si512(from + at + i * kLine);
    for (std::size_t i = 0; i < std::size(part); ++i)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at) + i, part[i]);
  }
  return at;
}

void copyBy(std::size_t (*move)(std::byte*, const std::byte*, std::size_t), void* output,
            const void* input, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(output);
  const auto* from = static_cast<const std::byte*>(input);
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) & (kLine - 1);
  if (bytes < head + kLine) {
    if (bytes > 0) std::memcpy(to, from, bytes); // the pointers may be null if bytes is 0
    return;
  }
  std::memcpy(to, from, head);
  const std::size_t at = head + move(to + head, from + head, bytes - head);
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence(); // otherwise a flag that is written next could become visible before the data
}

} // namespace

void copyPastCaches(void* output, const void* input, std::size_t bytes) {
  static const bool wide = __builtin_cpu_supports("avx512f");
  copyBy(wide ? streamWide : stream, output, input, bytes);
}

void copyPastCachesBySse(void* output, const void* input, std::size_t bytes) {
  copyBy(stream, output, input, bytes);
}

#else

void copyPastCaches(void* output, const void* input, std::size_t bytes) {
  if (bytes > 0) std::memcpy(output, input, bytes);
}

void copyPastCachesBySse(void* output, const void* input, std::size_t bytes) {
  copyPastCaches(output, input, bytes);
}

#endif

} // namespace rondo::kernels
