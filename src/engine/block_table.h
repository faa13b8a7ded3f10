// Where the blocks of a buffer lie.
#pragma once

#include <cstddef>
#include <vector>

namespace rondo::engine {

/// In elements: block b has counts[b] elements and begins at offsets[b].
struct BlockTable {
  std::vector<std::size_t> counts, offsets;

  bool operator==(const BlockTable&) const = default;
};

} // namespace rondo::engine
