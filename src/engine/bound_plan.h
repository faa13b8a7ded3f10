// A plan bound to one call shape and to channels: what the inner loop reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/fabric.h"
#include "kernels/reduce.h"
#include "plan/plan.h"
#include "plan/tiles.h"
#include "rondo/types.h"

namespace rondo::engine {

struct BoundOperand {
  End* wire = nullptr;      ///< null: local
  plan::PieceOffsets piece; ///< local only
  bool of_all = false;      ///< on a device: see plan::Operand
};

struct BoundStep {
  std::size_t bytes = 0; ///< of the message
  std::size_t tiles = 1; ///< it takes part in so many, from the first on
  std::vector<plan::Segment> segments;
  std::vector<BoundOperand> inputs;
  bool has_output = false;
  plan::PieceOffsets output;
  std::vector<End*> sends;
  std::vector<plan::Dependency> after;
  int raw_input = -1;      ///< operand that reads the call's input buffer, or -1
  bool carries = false;    ///< a carrier is among its channels; known once connected
  bool small_copy = false; ///< a few bytes from one place to others; known once connected
  bool carriers_only_move =
      false;                ///< carriers only send or put what it moves; known once connected
  bool lends = false;       ///< on a device: see plan::Lending
  std::uint32_t bundle = 1; ///< on a device: see plan::Bundles::size()
  /// On a device: see plan::Landing.
  std::vector<std::uint32_t> address_inputs;
  std::optional<plan::Dependency> announces;
  bool written_by_sender = false;
  bool to_all = false, is_barrier = false; ///< on a device: see plan::Step
};

using BoundLane = std::vector<BoundStep>;

struct DevicePlan;

/// A plan::Tiling with ends. Built once per (plan, shape); read-only but for the
/// lane cursors of the one run that uses it at a time.
struct BoundPlan {
  plan::CallShape shape;
  std::size_t tiles = 1;
  std::size_t tile_bytes = 0;     ///< of a full tile, in one block
  std::vector<BoundLane> full;    ///< steps in all their tiles but the last
  std::vector<BoundLane> last;    ///< steps in their last tile
  std::vector<End*> ends;         ///< all channels used
  std::vector<End*> carriers_out; ///< those that send as carriers; set once connected
  std::vector<End*> rings_out;    ///< those that send on rings; set once connected
  std::size_t reuse_bytes = 0;    ///< of each of them, see SlotRing::shareReuse()
  std::size_t scratch_bytes = 0;
  std::size_t window_bytes = 0;                  ///< of a copy
  std::size_t most_inputs = 0, most_outputs = 0; ///< of a step
  bool exchanges = false;                        ///< two ranks swap their inputs, and reduce
  bool past_caches = false;                      ///< what is received is written past the caches
  bool divides = false;                          ///< the output, at the end: see Scales::output
  bool lanes_in_step =
      false; ///< lanes share scratch: none may enter a tile before all left the last
  kernels::ReduceFunction reduce = nullptr; ///< null when the plan never reduces
  kernels::ScaleFunction scale = nullptr;
  bool connected = false;
  std::size_t users = 0;              ///< runs in flight, and captured graphs, that need it
  std::shared_ptr<DevicePlan> device; ///< what the CUDA engine keeps for it

  struct Cursor {
    std::size_t tile = 0;
    std::uint32_t step = 0;
  };
  std::vector<Cursor> cursors;

  /// A message that its receiver reads in this rank's memory, and has perhaps not returned.
  struct OpenLoan {
    End* end = nullptr;
    std::uint64_t number = 0;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<OpenLoan> loans; ///< of the run in progress

  /// The step at the cursor, or null when it has no part in the cursor's tile.
  const BoundStep* at(std::size_t lane, const Cursor& cursor) const {
    const BoundStep* step = &last[lane][cursor.step];
    if (cursor.tile + 1 == step->tiles) return step;
    return cursor.tile < step->tiles ? &full[lane][cursor.step] : nullptr;
  }
};

/// `message_bytes`: of the largest message; 0: the fabric's. Throws Error(unsupported) when a
/// message cannot fit even with the smallest tile.
BoundPlan bind(const plan::RankPlan& plan, const plan::CallShape& shape, Fabric& fabric,
               std::size_t message_bytes = 0);

} // namespace rondo::engine
