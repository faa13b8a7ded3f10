// Binding: from symbolic chunks to bytes, from channel numbers to ends.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>

#include "engine/bound_plan.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// With a root, data flow one way, and a receiver begins when the first tile is there: smaller ones
/// pay until the whole no longer stays in the caches. Not over sockets, which do that by
/// themselves. Broadcast between 2 processes, us, messages of up to 128 and 32 KiB: 64 KiB 6.8
/// and 5.3, 256 KiB 20 and 15.5, 1 MiB 62 and 58; 16 MiB 1270 and 1350.
constexpr std::size_t kRootedMessage = 32 << 10;
constexpr std::size_t kRootedBlock = 1 << 20;

/// Where all ranks receive this much at once, memory is what they wait for, and is spared by
/// writing past the caches. 16 MiB blocks, 2 and 4 processes, ms: allgather 3.66 to 3.56 and 24.4
/// to 20.0, alltoall 4.96 to 4.35 and 32.3 to 28.7. Of no use where one rank writes (gather 2.39
/// to 2.67) or where reducing takes the time (allreduce 2.43 to 2.52).
constexpr std::size_t kPastCaches = 8 << 20;

bool pastCaches(const plan::RankPlan& plan, const Shape& shape) {
  const Collective collective = plan.spec.collective;
  if (collective != Collective::allgather && collective != Collective::alltoall) return false;
  const auto& counts = shape.output.counts;
  const std::size_t elements = shape.uneven()
                                   ? std::accumulate(counts.begin(), counts.end(), std::size_t{0})
                                   : plan::outputBlocks(plan.spec, plan.rank) * shape.count;
  return elements * sizeOf(shape.type) >= kPastCaches;
}

bool exchanges(const plan::RankPlan& plan) {
  if (plan.spec.collective != Collective::allreduce || plan.spec.ranks != 2) return false;
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step& step : lane.steps)
      for (const plan::Operand& input : step.inputs)
        if (!step.sends.empty() && !(input.local() && input.piece.space == plan::Space::input))
          return false;
  return true;
}

/// Elements that a message may hold.
std::size_t messageElements(const plan::RankPlan& plan, const Shape& shape, const Fabric& fabric,
                            std::size_t bytes) {
  const std::size_t element = sizeOf(shape.type);
  const bool small = hasRoot(plan.spec.collective) && !shape.uneven() && !fabric.streams() &&
                     shape.count * element <= kRootedBlock;
  return (small ? std::min(bytes, kRootedMessage) : bytes) / element;
}

/// Largest tile whose messages fit `limit` elements; the same on all ranks. `chunks` of k to a
/// block hold at most chunks*tile/k elements, plus one for each of the two blocks that may be cut.
std::size_t tileElements(const plan::RankPlan& plan, const Shape& shape, std::size_t limit) {
  if (shape.uneven()) { // no rank need know all sizes: the tile depends on none
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

/// Cuts a step for its full tiles, or for its last one.
class Cutter {
 public:
  enum class Tile { full, last };

  Cutter(const plan::RankPlan& plan, const Shape& shape, std::size_t tile)
      : plan_(plan), shape_(shape), full_tile_(tile) {}

  BoundStep cut(const plan::Step& step, const std::vector<End*>& ends, Tile which) {
    BoundStep bound;
    const std::size_t block = blockOf(step);
    if (block > 0) bound.tiles = (block + full_tile_ - 1) / full_tile_;
    tile_ = which == Tile::full ? full_tile_ : block - (bound.tiles - 1) * full_tile_;
    cutSegments(step.shape, bound);
    for (const plan::Operand& operand : step.inputs) {
      BoundOperand& input = bound.inputs.emplace_back();
      if (operand.local()) {
        input.piece = place(operand.piece, step.shape);
        if (operand.piece.space == plan::Space::input)
          bound.raw_input = static_cast<int>(bound.inputs.size()) - 1;
      } else {
        input.wire = ends[static_cast<std::size_t>(operand.channel)];
      }
    }
    if (step.output) {
      bound.has_output = true;
      bound.output = place(*step.output, step.shape);
    }
    for (int channel : step.sends) bound.sends.push_back(ends[static_cast<std::size_t>(channel)]);
    bound.after = step.after;
    join(bound);
    return bound;
  }

 private:
  std::size_t within(std::size_t j) const { return j * tile_ / plan_.chunks_per_block; }

  const BlockTable& tableOf(plan::Space space) const {
    return space == plan::Space::input ? shape_.input : shape_.output;
  }

  /// Elements of the blocks that the step works on.
  std::size_t blockOf(const plan::Step& step) const {
    if (!shape_.uneven()) return shape_.count;
    const auto of = [this](const plan::Piece& piece) {
      return tableOf(piece.space).counts[piece.chunk];
    };
    if (step.output) return of(*step.output);
    for (const plan::Operand& input : step.inputs)
      if (input.local()) return of(input.piece);
    assert(false); // such plans do not serve blocks of different sizes
    return 0;
  }

  /// Where a block begins, in elements.
  std::size_t placeOf(plan::Space space, std::size_t block) const {
    if (shape_.uneven()) return tableOf(space).offsets[block];
    return block * (space == plan::Space::scratch ? full_tile_ : shape_.count);
  }

  /// One segment per block that the chunks touch; empty ones too, so that pieces stay parallel.
  void cutSegments(const plan::Piece& chunks, BoundStep& bound) const {
    const std::size_t k = plan_.chunks_per_block;
    std::size_t packed = 0;
    for (std::size_t at = chunks.chunk, end = at + chunks.count; at < end;) {
      const std::size_t stop = std::min(end, (at / k + 1) * k);
      const std::size_t count = within(at % k + (stop - at)) - within(at % k);
      bound.segments.push_back({count, packed});
      packed += count * sizeOf(shape_.type);
      at = stop;
    }
    bound.bytes = packed;
  }

  BoundPiece place(const plan::Piece& piece, const plan::Piece& shape) const {
    const std::size_t k = plan_.chunks_per_block;
    assert(piece.count == shape.count && piece.chunk % k == shape.chunk % k);
    (void)shape;
    BoundPiece bound{piece.space, {}};
    for (std::size_t at = piece.chunk, end = at + piece.count; at < end;) {
      bound.offsets.push_back((placeOf(piece.space, at / k) + within(at % k)) *
                              sizeOf(shape_.type));
      at = std::min(end, (at / k + 1) * k);
    }
    return bound;
  }

  /// Joins neighbours that are contiguous everywhere.
  void join(BoundStep& bound) const {
    std::vector<BoundPiece*> pieces;
    for (BoundOperand& input : bound.inputs)
      if (!input.wire) pieces.push_back(&input.piece);
    if (bound.has_output) pieces.push_back(&bound.output);
    std::size_t kept = 0;
    for (std::size_t s = 1; s < bound.segments.size(); ++s) {
      const std::size_t bytes = bound.segments[kept].count * sizeOf(shape_.type);
      const bool touching = std::all_of(pieces.begin(), pieces.end(), [&](BoundPiece* piece) {
        return piece->offsets[kept] + bytes == piece->offsets[s];
      });
      if (touching) {
        bound.segments[kept].count += bound.segments[s].count;
        continue;
      }
      ++kept;
      bound.segments[kept] = bound.segments[s];
      for (BoundPiece* piece : pieces) piece->offsets[kept] = piece->offsets[s];
    }
    bound.segments.resize(kept + 1);
    for (BoundPiece* piece : pieces) piece->offsets.resize(kept + 1);
  }

  const plan::RankPlan& plan_;
  const Shape& shape_;
  const std::size_t full_tile_;
  std::size_t tile_ = 0;
};

std::vector<BoundLane> cutLanes(const plan::RankPlan& plan, Cutter& cutter, Cutter::Tile which,
                                const std::vector<End*>& ends) {
  std::vector<BoundLane> lanes;
  for (const plan::Lane& lane : plan.lanes) {
    BoundLane& bound = lanes.emplace_back();
    for (const plan::Step& step : lane.steps) bound.push_back(cutter.cut(step, ends, which));
  }
  return lanes;
}

} // namespace

BoundPlan bind(const plan::RankPlan& plan, const Shape& shape, Fabric& fabric,
               std::size_t message_bytes) {
  if (message_bytes == 0) message_bytes = fabric.messageBytes();
  BoundPlan bound;
  bound.shape = shape;
  std::vector<bool> sending(plan.channels.size());
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step& step : lane.steps)
      for (int channel : step.sends) sending[static_cast<std::size_t>(channel)] = true;
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const plan::Channel& channel = plan.channels[c];
    bound.ends.push_back(&fabric.end(channel.src, channel.dst, channel.index, sending[c]));
  }

  const std::size_t element = sizeOf(shape.type);
  const std::size_t tile =
      tileElements(plan, shape, messageElements(plan, shape, fabric, message_bytes));
  bound.tile_bytes = tile * element;
  Cutter cutter(plan, shape, tile);
  bound.last = cutLanes(plan, cutter, Cutter::Tile::last, bound.ends);
  for (const BoundLane& lane : bound.last)
    for (const BoundStep& step : lane) bound.tiles = std::max(bound.tiles, step.tiles);
  if (bound.tiles > 1) bound.full = cutLanes(plan, cutter, Cutter::Tile::full, bound.ends);

  const std::size_t k = plan.chunks_per_block;
  bound.scratch_bytes = (plan.scratch_chunks + k - 1) / k * tile * element;
  bound.exchanges = exchanges(plan);
  bound.past_caches = pastCaches(plan, shape);
  bound.lanes_in_step = plan.scratch_chunks > 0 && plan.lanes.size() > 1;
  bound.cursors.resize(plan.lanes.size());
  bound.scale = kernels::scaleFunction(shape.type);
  for (const auto* lanes : {&bound.full, &bound.last})
    for (const BoundLane& lane : *lanes)
      for (const BoundStep& step : lane) {
        bound.most_inputs = std::max(bound.most_inputs, step.inputs.size());
        bound.most_outputs = std::max(bound.most_outputs, step.sends.size() + 1);
        if (step.inputs.size() > 1) bound.reduce = kernels::reduceFunction(shape.type, shape.op);
        const bool wired = !step.sends.empty() ||
                           std::any_of(step.inputs.begin(), step.inputs.end(),
                                       [](const BoundOperand& input) { return input.wire; });
        if (wired && step.bytes > message_bytes)
          throw Error(ErrorCode::unsupported, "a message of " + std::to_string(step.bytes) +
                                                  " bytes does not fit a slot of " +
                                                  std::to_string(message_bytes) +
                                                  " bytes: raise RONDO_BUFFSIZE");
      }
  return bound;
}

} // namespace rondo::engine
