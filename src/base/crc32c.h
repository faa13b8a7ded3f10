// CRC32C (Castagnoli), by the fastest instructions that the processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::base {

/// The CRC32C of some bytes and of those before them, whose CRC32C is `before` (0: none).
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);

/// The same for bytes that it copies. Faster than to copy them and to sum them, because it computes
/// while it waits for memory. `past_caches`: does not keep the copy in the caches, if the processor
/// has AVX-512. The copy becomes visible to other threads in the same way as with memcpy.
std::uint32_t crc32cOfCopy(std::uint32_t before, void* to, const void* from, std::size_t bytes,
                           bool past_caches = false);

// crc32c() for other processors; here so that tests compare them.
/// By the CRC32 instruction of SSE 4.2, if the processor has it.
std::uint32_t crc32cByInstruction(std::uint32_t before, const void* data, std::size_t bytes);
/// By tables.
std::uint32_t crc32cByTable(std::uint32_t before, const void* data, std::size_t bytes);

} // namespace rondo::base
