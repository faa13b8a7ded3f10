// Which samples a step, a micro-batch and a rank take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::training {

/// The numbers 0 to count - 1 in an order that depends on (seed, epoch) only.
std::vector<std::uint32_t> sampleOrder(std::uint32_t count, std::uint64_t seed, int epoch);

struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

/// Part `part` of `parts` of 0 to total - 1: parts cover everything once, sizes differ by one at
/// most.
constexpr Range share(std::size_t total, std::size_t part, std::size_t parts) {
  return {total * part / parts, total * (part + 1) / parts};
}

} // namespace rondo::training
