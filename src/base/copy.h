// Copies bytes, without a case in which memcpy() is slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rondo::base {

/// Copies with vector instructions, whatever the addresses are.
void copyByVectors(void* to, const void* from, std::size_t bytes);

/// Does what std::memcpy() does. From about 2 KiB on, glibc before 2.39 uses the instruction `rep
/// movsb` if the processor says that it is fast. On AMD Zen 3, and by glibc's bug 30994 on Zen 4,
/// it takes 20 times as long (2.2 in place of 45 GB/s) if `to` is 1 to 31 bytes further into its
/// page than `from` is. A copy from a slot to a large block of malloc() always is such a case: the
/// slot begins a page, and the block begins 16 bytes after the begin of one.
inline void copyBytes(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::uintptr_t kPage = 4096, kSlow = 31;
  constexpr std::size_t kFew = 2048;
  const std::uintptr_t ahead =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  if (bytes > kFew && ahead - 1 < kSlow) [[unlikely]]
    return copyByVectors(to, from, bytes);
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);
}

} // namespace rondo::base
