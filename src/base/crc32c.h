// CRC32C (Castagnoli), by the fastest instructions that the processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::base {

/// The CRC32C of some bytes and of those before them, whose CRC32C is `before` (0: none).
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);

/// The same, and copies the bytes to `to`. On processors with VPCLMULQDQ, one pass does both for
/// 256 bytes or more, and `past_caches` uses non-temporal stores; otherwise it has no effect. Other
/// threads see the copy in the same way as one by memcpy.
std::uint32_t crc32cOfCopy(std::uint32_t before, void* to, const void* from, std::size_t bytes,
                           bool past_caches = false);

// Slower ways, declared for tests.
/// By the CRC32 instruction of SSE 4.2, if the processor has it.
std::uint32_t crc32cByInstruction(std::uint32_t before, const void* data, std::size_t bytes);
std::uint32_t crc32cByTable(std::uint32_t before, const void* data, std::size_t bytes);

} // namespace rondo::base
