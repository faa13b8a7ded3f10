// CRC32C (Castagnoli), by the processor's instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::base {

/// The CRC32C of some bytes and of those before them, whose CRC32C is `before` (0: none).
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);

/// The same without the instruction: for other processors, and to test it.
std::uint32_t crc32cByTable(std::uint32_t before, const void* data, std::size_t bytes);

} // namespace rondo::base
