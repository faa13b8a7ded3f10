// Cuts a plan's steps for one shape of call: computes tiles, and the positions of pieces in bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "rondo/types.h"

namespace rondo::plan {

/// The positions of a buffer's blocks in elements: block b has counts[b] elements and begins at
/// offsets[b].
struct BlockTable {
  std::vector<std::size_t> counts, offsets;

  bool operator==(const BlockTable&) const = default;
};

/// The counts, type and blocks of a call's buffers.
struct CallShape {
  std::size_t count = 0; ///< elements of one block; v-forms: of this rank's single block, if any
  DataType type = DataType::float32;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  /// v-forms: the blocks of each buffer that this rank uses. Otherwise both are empty, and blocks
  /// of `count` elements are contiguous.
  BlockTable input = {}, output = {};

  bool uneven() const { return !input.counts.empty() || !output.counts.empty(); }
};

/// With more than one tile, a tile's chunk has a multiple of this many bytes: smaller tiles are not
/// worth another boundary at an odd address.
inline constexpr std::size_t kTileAlignBytes = 64;

/// The unit that a switch moves. If plans have windows, all their chunks and the windows' blocks
/// begin at a multiple of it.
inline constexpr std::size_t kWindowAlignBytes = 16;

/// Contiguous elements of a step. A step has several segments when its chunks cross block
/// boundaries.
struct Segment {
  std::size_t count = 0;  ///< elements
  std::size_t packed = 0; ///< bytes from the start of the message
};

/// The positions of a piece in the first tile: for each segment, bytes from the start of its space.
struct PieceOffsets {
  Space space = Space::input;
  std::vector<std::size_t> offsets;
};

/// One step in one of its tiles. Tile t begins t times the tile's bytes later in input and output,
/// and at the same place in scratch and window.
struct TiledStep {
  std::size_t bytes = 0; ///< of the message
  std::size_t tiles = 1; ///< number of tiles, from the first on, that it takes part in
  std::vector<Segment> segments;
  std::vector<PieceOffsets> inputs; ///< by operand; without offsets for a message
  std::optional<PieceOffsets> output;
};

/// A plan cut for a shape of call. Every lane is repeated for `tiles` tiles. A step takes part in
/// the tiles that its block extends into: in all of them, unless blocks differ in size.
struct Tiling {
  std::size_t tile = 0;                     ///< elements of a block in a full tile
  std::size_t tiles = 1;                    ///< of the step that takes part in most
  std::size_t scratch_elements = 0;         ///< of one tile
  std::size_t window_elements = 0;          ///< of one tile
  std::vector<std::vector<TiledStep>> full; ///< [lane][step]: in all tiles but its last; empty
                                            ///< where there is only one
  std::vector<std::vector<TiledStep>> last; ///< in its last tile
};

/// Elements that a message should hold if its limit is `bytes`. `network_channels`: some channels
/// use sockets.
std::size_t messageElements(const RankPlan& plan, const CallShape& shape, std::size_t bytes,
                            bool network_channels);

/// The largest tile, in elements of a block, whose messages have at most `limit` elements. Equal on
/// all ranks.
std::size_t tileElements(const RankPlan& plan, const CallShape& shape, std::size_t limit);

/// Cuts the plan into tiles of `tile` elements.
Tiling cut(const RankPlan& plan, const CallShape& shape, std::size_t tile);

} // namespace rondo::plan
