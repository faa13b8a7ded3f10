// A plan bound to one call shape and to channels: the data that the engines' inner loops read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/fabric.h"
#include "engine/faster_way.h"
#include "engine/open_loans.h"
#include "kernels/reduce.h"
#include "plan/plan.h"
#include "plan/tiles.h"
#include "rondo/types.h"

namespace rondo::engine {

struct BoundOperand {
  End* wire = nullptr;      ///< the channel's end; null: local
  plan::PieceOffsets piece; ///< of a local operand
};

struct BoundStep {
  std::size_t bytes = 0; ///< size of the message
  std::size_t tiles = 1; ///< the step takes part in tiles 0 to tiles - 1
  std::vector<plan::Segment> segments;
  std::vector<BoundOperand> inputs;
  bool has_output = false;
  plan::PieceOffsets output;
  std::vector<End*> sends;
  std::vector<plan::Dependency> after;
  int raw_input = -1;        ///< index of the operand that reads the call's input buffer, or -1
  bool uses_network = false; ///< at least one of its channels does; set when connected
  bool past_caches = false;  ///< only copies, and writes its output past the caches
  bool small_copy = false;   ///< copies a few bytes from one place to others; set when connected
  /// Only copies, to peers and maybe to the output: to the peers first, so that they need not wait
  /// for the copy to the output; set when connected.
  bool sends_first = false;
  /// If the message is not lent: publishes its header first, then copies the body in pieces, so
  /// that the receiver can copy each piece at once (SlotRing::publishEarly()); set when connected.
  bool sends_early = false;
  /// Reduces, and may copy its result to the slots of the peers or to the output that it lends: see
  /// transport::kCopiedBlock and kCopiedResult; set when connected.
  bool copies_result = false;
  mutable FasterWay result_way; ///< first: copies its result, if copies_result
  /// See SlotRing::release(); set when connected.
  std::size_t take_below = transport::kLargeBodyBytes;
  /// The sender may copy messages of later tiles to the output before this rank gets to them; set
  /// when connected.
  bool shares_later = false;
  /// The step only moves data, and only over network channels; set when connected.
  bool only_moves_over_network = false;
};

using BoundLane = std::vector<BoundStep>;

/// A step of the fast path (engine/fast_path.h), with all that it needs side by side.
struct FastStep {
  struct Place {
    bool in_output = false; ///< in the call's output, not in its input
    std::size_t offset = 0;
  };
  struct Source {
    const End* wire = nullptr; ///< null: local
    transport::SlotRing* ring = nullptr;
    Place place; ///< of a local one
  };

  const BoundStep* step = nullptr; ///< the same step, for error texts
  std::size_t bytes = 0, elements = 0;
  Source input;               ///< the only or first one
  std::vector<Source> others; ///< the other inputs
  bool has_output = false;
  Place output;
  std::vector<transport::SlotRing*> sends;
  std::size_t take_below = 0; ///< see SlotRing::release()
};

/// The bytes that a call uses of a buffer, relative to the buffer's address. Empty: it uses none.
struct UsedBytes {
  std::size_t begin = 0, end = 0;
};

struct DevicePlan;

/// A plan::Tiling with ends. It is built once for each plan and shape. It is constant, except for
/// the state of the run that uses it (one run at a time).
struct BoundPlan {
  plan::CallShape shape;
  std::size_t tiles = 1;
  std::size_t tile_bytes = 0;    ///< bytes of a full tile in one block
  std::vector<BoundLane> full;   ///< the steps in all their tiles except the last
  std::vector<BoundLane> last;   ///< the steps in their last tile
  std::vector<End*> ends;        ///< all channels that the plan uses
  std::vector<End*> network_out; ///< the network channels that it sends on; set when connected
  std::vector<End*> rings_out;   ///< the rings that it sends on; set when connected
  std::size_t reuse_bytes = 0;   ///< for each of rings_out, see SlotRing::shareReuse()
  std::size_t scratch_bytes = 0;
  std::byte* scratch = nullptr; ///< the host engine's, of scratch_bytes; set by each run
  std::size_t window_bytes = 0; ///< of one copy
  std::size_t most_inputs = 0, most_outputs = 0; ///< maxima over all steps
  /// Two ranks exchange their inputs and reduce them.
  bool exchanges = false;
  Collective collective{};
  /// How receivers use the messages that this rank sends; set when connected.
  transport::Use use = transport::Use::combine;
  /// The output is divided at the end, see Scales::output.
  bool divides = false;
  /// Lanes share scratch: a lane enters a tile only after all lanes have left the one before.
  bool lanes_in_step = false;
  kernels::ReduceFunction reduce = nullptr; ///< null if the plan does not reduce
  kernels::ScaleFunction scale = nullptr;
  bool connected = false;
  /// The steps, if the plan has a fast path; set when connected.
  std::vector<FastStep> fast_path;
  /// How many of these come first that wait for no peer and send no body of more than 40 bytes
  /// (SlotRing::kInlineBytes). 0 if all steps are like that.
  std::size_t fast_sends = 0;
  UsedBytes of_input, of_output;
  std::size_t users = 0;              ///< runs in flight and captured graphs that use it
  std::shared_ptr<DevicePlan> device; ///< state of the CUDA engine for this plan

  struct Cursor {
    std::size_t tile = 0;
    std::uint32_t step = 0;
  };
  std::vector<Cursor> cursors;

  OpenLoans loans; ///< of the run in progress

  /// The step at the cursor, or null if the step has no part in the cursor's tile.
  const BoundStep* at(std::size_t lane, const Cursor& cursor) const {
    const BoundStep* step = &last[lane][cursor.step];
    if (cursor.tile + 1 == step->tiles) return step;
    return cursor.tile < step->tiles ? &full[lane][cursor.step] : nullptr;
  }
};

/// Binds the plan. `message_bytes`: size of the largest message; 0: the fabric's. Throws
/// Error(unsupported) if a message does not fit even with the smallest tile.
BoundPlan bind(const plan::RankPlan& plan, const plan::CallShape& shape, Fabric& fabric,
               std::size_t message_bytes = 0);

} // namespace rondo::engine
