// Collective: the collectives, and their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

/// The collectives: allreduce, broadcast, ..., as in detail/collectives.def. `sendrecv` is one Send
/// or Recv; `scan` is a prefix reduction, and `exclusivescan` one without the rank's own input.
enum class Collective : std::uint8_t {
#define RONDO_COLLECTIVE(collective, ...) collective,
#include "rondo/detail/collectives.def"
};

} // namespace rondo

#include "rondo/detail/collective_traits.h"

namespace rondo {

inline constexpr std::size_t kCollectiveCount = detail::kCollectiveTraits.size();

/// Every collective once.
inline constexpr auto kCollectives = [] {
  std::array<Collective, kCollectiveCount> all{};
  for (std::size_t i = 0; i < kCollectiveCount; ++i) all[i] = static_cast<Collective>(i);
  return all;
}();

/// Whether the call has an operator.
constexpr bool reduces(Collective c) { return traits(c).reduces(); }
/// Whether the call has a root.
constexpr bool hasRoot(Collective c) { return traits(c).hasRoot(); }

/// "allreduce", "reducescatter", ...
RONDO_API std::string_view name(Collective collective);
/// Inverse of name(); takes aliases too. Throws Error(invalid_argument).
RONDO_API Collective parseCollective(std::string_view text);

} // namespace rondo
