// Random bytes from the kernel, for nonces, secrets and names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::base {

/// Throws Error(system).
void randomBytes(std::span<std::byte> out);
std::uint64_t randomNumber();

} // namespace rondo::base
