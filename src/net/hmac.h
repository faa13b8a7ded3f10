// HMAC-SHA256 over pieces of memory.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace rondo::net {

using Mac = std::array<std::byte, 32>;
using Key = std::array<std::byte, 32>;

/// Over `label`, a zero byte, and the concatenated parts. Different labels separate the uses of a
/// key. Parts must have a fixed size or contain their size. Throws Error(system) when libcrypto
/// fails.
Mac hmacSha256(const Key& key, std::string_view label,
               std::initializer_list<std::span<const std::byte>> parts);

/// Compares in a time that does not depend on the contents. False for different sizes.
bool equalConstantTime(std::span<const std::byte> a, std::span<const std::byte> b);

} // namespace rondo::net
