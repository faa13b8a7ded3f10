// Cuts a plan's steps for one shape of call: tiles, and where pieces lie in bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "rondo/types.h"

namespace rondo::plan {

/// Where the blocks of a buffer lie, in elements: block b has counts[b] elements and begins at
/// offsets[b].
struct BlockTable {
  std::vector<std::size_t> counts, offsets;

  bool operator==(const BlockTable&) const = default;
};

/// What a call's buffers look like.
struct CallShape {
  std::size_t count = 0; ///< elements of one block; of the output, where blocks differ
  DataType type = DataType::float32;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  /// v-forms: the blocks of each buffer that this rank uses. Else both are empty, and blocks of
  /// `count` elements lie one after the other.
  BlockTable input = {}, output = {};

  bool uneven() const { return !input.counts.empty() || !output.counts.empty(); }
};

/// A chunk of a tile has a multiple of so many bytes, where there is more than one tile: fewer are
/// not worth another boundary on odd addresses.
inline constexpr std::size_t kTileAlignBytes = 64;

/// What a switch moves in one piece: where plans have windows all their chunks, and the blocks of
/// windows, begin at a multiple of it.
inline constexpr std::size_t kWindowAlignBytes = 16;

/// Contiguous elements of a step. A step has several when its chunks cross block boundaries.
struct Segment {
  std::size_t count = 0;  ///< elements
  std::size_t packed = 0; ///< bytes from the start of the message
};

/// Where a piece lies in the first tile: for each segment, bytes from the start of its space.
struct PieceOffsets {
  Space space = Space::input;
  std::vector<std::size_t> offsets;
};

/// One step in one of its tiles. Tile t begins t times the tile's bytes later in input and output,
/// and at the same place in scratch and window.
struct TiledStep {
  std::size_t bytes = 0; ///< of the message
  std::size_t tiles = 1; ///< it takes part in so many, from the first on
  std::vector<Segment> segments;
  std::vector<PieceOffsets> inputs; ///< by operand; without offsets where it is a message
  std::optional<PieceOffsets> output;
};

/// A plan cut for a shape of call. Every lane is repeated for `tiles` tiles; a step takes part in
/// those that its block reaches into: in all, unless blocks differ in size.
struct Tiling {
  std::size_t tile = 0;                     ///< elements of a block in a full tile
  std::size_t tiles = 1;                    ///< of the step that has most
  std::size_t scratch_elements = 0;         ///< of one tile
  std::size_t window_elements = 0;          ///< of one tile
  std::vector<std::vector<TiledStep>> full; ///< [lane][step]: in all tiles but its last; empty
                                            ///< where there is only one
  std::vector<std::vector<TiledStep>> last; ///< in its last tile
};

/// Elements that a message should hold where it may have `bytes`. `carriers`: of a socket.
std::size_t messageElements(const RankPlan& plan, const CallShape& shape, std::size_t bytes,
                            bool carriers);

/// Largest tile whose messages fit `limit` elements, in elements of a block; the same on all ranks.
std::size_t tileElements(const RankPlan& plan, const CallShape& shape, std::size_t limit);

/// The plan in tiles of `tile` elements.
Tiling cut(const RankPlan& plan, const CallShape& shape, std::size_t tile);

} // namespace rondo::plan
