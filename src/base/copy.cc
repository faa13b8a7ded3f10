// Copies with vector instructions that every processor has.
#include "base/copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace rondo::base {

void copyByVectors(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  auto* out = static_cast<__m128i*>(to);
  const auto* in = static_cast<const __m128i*>(from);
  constexpr std::size_t kTogether = 4;
  for (; bytes >= kTogether * sizeof(__m128i); bytes -= kTogether * sizeof(__m128i)) {
    __m128i some[kTogether];
    for (__m128i& one : some) one = _mm_loadu_si128(in++);
    for (const __m128i& one : some) _mm_storeu_si128(out++, one);
  }
  to = out;
  from = in;
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);
}

} // namespace rondo::base
