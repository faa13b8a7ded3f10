// Copies one input to all outputs, which is the reduction of a single input. Also copies past the
// caches.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#if defined(__SSE2__)
#include <emmintrin.h>
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

void copyPastCaches(void* output, const void* input, std::size_t bytes) {
  constexpr std::size_t kLine = 64, kTurn = 4 * kLine;
  auto* to = static_cast<std::byte*>(output);
  const auto* from = static_cast<const std::byte*>(input);
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) & (kLine - 1);
  if (bytes < head + kTurn) {
    if (bytes > 0) std::memcpy(to, from, bytes); // the pointers may be null if bytes is 0
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  // Reads four lines before it writes the first, so that their cache misses overlap.
  for (; at + kTurn <= bytes; at += kTurn) {
    __m128i lines[kTurn / 16];
    for (std::size_t i = 0; i < std::size(lines); ++i)
      lines[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    for (std::size_t i = 0; i < std::size(lines); ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, lines[i]);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence(); // otherwise a flag that is written next could become visible before the data
}

#else

void copyPastCaches(void* output, const void* input, std::size_t bytes) {
  if (bytes > 0) std::memcpy(output, input, bytes);
}

#endif

} // namespace rondo::kernels
