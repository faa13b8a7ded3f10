// Unpredictable bytes from the kernel: nonces, secrets, names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::base {

/// Throws Error(system).
void randomBytes(std::span<std::byte> out);
std::uint64_t randomNumber();

} // namespace rondo::base
