// Computes tiles: from symbolic chunks to bytes.
#include "plan/tiles.h"

#include <algorithm>
#include <cassert>

namespace rondo::plan {

namespace {

/// A Reduce moves data in one direction, and a receiver starts when the first tile has arrived. So
/// smaller tiles are faster until the buffers exceed the caches; not over sockets, which pipeline
/// by themselves. Calls that only move data use large tiles, which both ranks copy together.
/// Broadcast between 2 processes, us, messages of 32 KiB through slots / messages of 128 KiB that
/// both ranks copy: 64 KiB 12.4 / 6.1, 256 KiB 35 / 13.5, 1 MiB 95 / 70. Where the kernel forbids
/// process_vm_readv, messages go through slots; 32 KiB / 128 KiB: on one machine 64 KiB 12.0 /
/// 10.4, 256 KiB 43 / 32; on another 64 KiB 5.3 / 6.8, 256 KiB 15.5 / 20, 1 MiB 58 / 62.
constexpr std::size_t kReduceMessage = 32 << 10;
constexpr std::size_t kReduceBlock = 1 << 20;

/// Rounds up to a multiple of what a switch moves in one piece.
std::size_t wholeUnits(const CallShape& shape, std::size_t elements) {
  const std::size_t grain = kWindowAlignBytes / sizeOf(shape.type);
  return (elements + grain - 1) / grain * grain;
}

/// Cuts steps for their full tiles or for their last one.
class Cutter {
 public:
  enum class Tile { full, last };

  Cutter(const RankPlan& plan, const CallShape& shape, std::size_t tile)
      : plan_(plan), shape_(shape), full_tile_(tile) {}

  std::vector<std::vector<TiledStep>> lanes(Tile which) {
    std::vector<std::vector<TiledStep>> lanes;
    for (const Lane& lane : plan_.lanes) {
      auto& steps = lanes.emplace_back();
      for (const Step& step : lane.steps) steps.push_back(cut(step, which));
    }
    return lanes;
  }

 private:
  TiledStep cut(const Step& step, Tile which) {
    TiledStep tiled;
    const std::size_t block = blockOf(step);
    if (block > 0) tiled.tiles = tilesOf(block);
    tile_ = which == Tile::full ? full_tile_ : block - (tiled.tiles - 1) * full_tile_;
    cutSegments(step.shape, tiled);
    for (const Operand& operand : step.inputs)
      tiled.inputs.push_back(operand.local() ? offsetsOf(operand.piece) : PieceOffsets{});
    if (step.output) tiled.output = offsetsOf(*step.output);
    join(step, tiled);
    return tiled;
  }

  /// Of a v-form, the last tile is smaller than a full one, maybe empty. So ranks that pass
  /// different counts for a block always notice a message of unexpected size.
  std::size_t tilesOf(std::size_t block) const {
    return shape_.uneven() ? block / full_tile_ + 1 : (block + full_tile_ - 1) / full_tile_;
  }

  std::size_t within(std::size_t j) const {
    const std::size_t begin = j * tile_ / plan_.chunks_per_block;
    return plan_.window_chunks > 0 ? std::min(wholeUnits(shape_, begin), tile_) : begin;
  }

  const BlockTable& tableOf(Space space) const {
    return space == Space::input ? shape_.input : shape_.output;
  }

  /// Elements of the blocks that the step works on.
  std::size_t blockOf(const Step& step) const {
    if (!shape_.uneven()) return shape_.count;
    const auto of = [this](const Piece& piece) { return tableOf(piece.space).counts[piece.chunk]; };
    if (step.output) return of(*step.output);
    for (const Operand& input : step.inputs)
      if (input.local()) return of(input.piece);
    assert(false); // such plans do not serve blocks of different sizes
    return 0;
  }

  /// Start of a block, in elements.
  std::size_t blockBegin(Space space, std::size_t block) const {
    if (space == Space::window) return block * wholeUnits(shape_, full_tile_);
    if (shape_.uneven()) return tableOf(space).offsets[block];
    return block * (space == Space::scratch ? full_tile_ : shape_.count);
  }

  /// One segment per block that the chunks touch. Empty segments are kept, so that pieces stay
  /// parallel.
  void cutSegments(const Piece& chunks, TiledStep& tiled) const {
    const std::size_t k = plan_.chunks_per_block;
    for (std::size_t at = chunks.chunk, end = at + chunks.count; at < end;) {
      const std::size_t stop = std::min(end, (at / k + 1) * k);
      const std::size_t count = within(at % k + (stop - at)) - within(at % k);
      tiled.segments.push_back({count, tiled.bytes});
      tiled.bytes += count * sizeOf(shape_.type);
      at = stop;
    }
  }

  PieceOffsets offsetsOf(const Piece& piece) const {
    const std::size_t k = plan_.chunks_per_block;
    PieceOffsets result{piece.space, {}};
    for (std::size_t at = piece.chunk, end = at + piece.count; at < end;) {
      result.offsets.push_back((blockBegin(piece.space, at / k) + within(at % k)) *
                               sizeOf(shape_.type));
      at = std::min(end, (at / k + 1) * k);
    }
    return result;
  }

  /// Joins adjacent segments that are contiguous in all pieces.
  void join(const Step& step, TiledStep& tiled) const {
    std::vector<PieceOffsets*> pieces;
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i].local()) pieces.push_back(&tiled.inputs[i]);
    if (tiled.output) pieces.push_back(&*tiled.output);
    std::size_t kept = 0;
    for (std::size_t s = 1; s < tiled.segments.size(); ++s) {
      const std::size_t bytes = tiled.segments[kept].count * sizeOf(shape_.type);
      const bool touching = std::all_of(pieces.begin(), pieces.end(), [&](PieceOffsets* piece) {
        return piece->offsets[kept] + bytes == piece->offsets[s];
      });
      if (touching) {
        tiled.segments[kept].count += tiled.segments[s].count;
        continue;
      }
      ++kept;
      tiled.segments[kept] = tiled.segments[s];
      for (PieceOffsets* piece : pieces) piece->offsets[kept] = piece->offsets[s];
    }
    tiled.segments.resize(kept + 1);
    for (PieceOffsets* piece : pieces) piece->offsets.resize(kept + 1);
  }

  const RankPlan& plan_;
  const CallShape& shape_;
  const std::size_t full_tile_;
  std::size_t tile_ = 0;
};

} // namespace

std::size_t messageElements(const RankPlan& plan, const CallShape& shape, std::size_t bytes,
                            bool network_channels) {
  const std::size_t element = sizeOf(shape.type);
  const bool small = plan.spec.collective == Collective::reduce && !shape.uneven() &&
                     !network_channels && shape.count * element <= kReduceBlock;
  return (small ? std::min(bytes, kReduceMessage) : bytes) / element;
}

/// A message of `chunks` chunks, k to a block, holds at most chunks*tile/k elements, plus one for
/// each of the two blocks that it may cut.
std::size_t tileElements(const RankPlan& plan, const CallShape& shape, std::size_t limit) {
  if (shape.uneven()) { // not every rank knows all sizes, so the tile depends on none of them
    const std::size_t grain = kTileAlignBytes / sizeOf(shape.type);
    return std::max<std::size_t>(limit >= grain ? limit / grain * grain : limit, 1);
  }
  const std::size_t k = plan.chunks_per_block, chunks = plan.message_chunks;
  std::size_t tile = k == 1 ? limit / chunks : (limit > 2 ? (limit - 2) * k / chunks : 0);
  tile = std::max<std::size_t>(tile, 1);
  if (tile >= shape.count) return shape.count;
  const std::size_t grain = k * kTileAlignBytes / sizeOf(shape.type);
  const std::size_t tiles = (shape.count + tile - 1) / tile;
  std::size_t even = (shape.count + tiles - 1) / tiles;
  if (grain > 0 && tile >= grain)
    even = std::min((even + grain - 1) / grain * grain, tile / grain * grain);
  return even;
}

Tiling cut(const RankPlan& plan, const CallShape& shape, std::size_t tile) {
  Tiling tiling;
  tiling.tile = tile;
  Cutter cutter(plan, shape, tile);
  tiling.last = cutter.lanes(Cutter::Tile::last);
  for (const auto& lane : tiling.last)
    for (const TiledStep& step : lane) tiling.tiles = std::max(tiling.tiles, step.tiles);
  if (tiling.tiles > 1) tiling.full = cutter.lanes(Cutter::Tile::full);
  const std::size_t k = plan.chunks_per_block;
  tiling.scratch_elements = (plan.scratch_chunks + k - 1) / k * tile;
  tiling.window_elements = (plan.window_chunks + k - 1) / k * wholeUnits(shape, tile);
  return tiling;
}

} // namespace rondo::plan
