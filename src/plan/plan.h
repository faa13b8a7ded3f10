// The value that everything else reads: what one rank does in a collective.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layout.h"
#include "rondo/types.h"

namespace rondo::plan {

/// What an algorithm is asked to describe.
struct Spec {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int root = 0;
  int parameter = 0;  ///< what stands after '/' in "parameter_server/4"; 0: the algorithm's default
  Layout layout = {}; ///< where the ranks are; without levels: all alike
  /// What stands in the brackets of "hierarchical(linear,ring)", as numbers in the registry from 1
  /// on; 0: the algorithm's defaults.
  int inner = 0, outer = 0;
  /// Each rank has a window, and a switch that adds up all ranks' and stores to all of them, with
  /// the type and operator of the call.
  bool multicast = false;

  bool operator==(const Spec&) const = default;
  auto operator<=>(const Spec&) const = default;
};

/// Memory of the rank that runs the step.
///
/// All spaces are cut by one rule. A *block* is the `count` elements of the public call. A plan
/// cuts every block into k = RankPlan::chunks_per_block chunks: chunk i lies in block i/k, and with
/// j = i%k covers elements floor(j*count/k) to floor((j+1)*count/k) of it. So no count must divide,
/// and one plan serves all counts. (Where a plan has windows, both are rounded up to what a switch
/// moves in one piece, kWindowAlignBytes, but not past the block.) Input and output have the blocks
/// of rondo/collectives.h (a barrier's steps name one of 0 elements); scratch and window have as
/// many as their chunks need, and are undefined at the start of a tile.
///
/// Window is scratch that a switch reaches (Spec::multicast): a step may read the sum of a piece of
/// all ranks' windows (Operand::of_all), and write a piece of all of them (Step::to_all). Nothing
/// but meetings (Step::is_barrier) orders what ranks do to each other's windows.
///
/// In-place rule for plans: where CollectiveTraits::in_place allows it, the plan must still be
/// right: once an output chunk is written, the input chunk in the same place is gone. Input is
/// never written otherwise.
enum class Space : std::uint8_t { input, output, scratch, window };

/// `count` consecutive chunks, `chunk` first. They may cross block boundaries.
struct Piece {
  Space space = Space::input;
  std::uint32_t chunk = 0;
  std::uint32_t count = 1;

  bool operator==(const Piece&) const = default;
};

/// Whether the two have a chunk in common, in plans whose spaces share no memory.
inline bool overlap(const Piece& a, const Piece& b) {
  return a.space == b.space && a.chunk < b.chunk + b.count && b.chunk < a.chunk + a.count;
}

/// One direction between two ranks; `index` tells several between the same two apart.
/// src == dst only in a Send or Recv to oneself: the checker refuses it in a collective.
struct Channel {
  int src = 0, dst = 0, index = 0;

  auto operator<=>(const Channel&) const = default;
};

/// One input of a step: the next message of a channel, or a local piece.
struct Operand {
  static constexpr int kLocal = -1;
  int channel = kLocal; ///< index into RankPlan::channels, or kLocal
  Piece piece{};        ///< local: what is read. Wire: unused
  /// Local, in the window: what is read is the sum of this piece of all ranks' windows, in an order
  /// that the switch does not tell. The step's only operand.
  bool of_all = false;

  bool local() const { return channel == kLocal; }
  bool operator==(const Operand&) const = default;
};

/// "Step `step` of lane `lane` of this rank must be done (for the same tile)."
struct Dependency {
  std::uint32_t lane = 0, step = 0;

  bool operator==(const Dependency&) const = default;
};

/// One fused operation. Waits for `after`, for a message on every wire operand, and for a free slot
/// on every channel of `sends`; then value = inputs[0] op inputs[1] op ... in this order (one
/// pass); value goes to `output`, if there is one, and to every channel of `sends`. Send, receive,
/// copy, reduce and all their fused forms are special cases.
struct Step {
  Piece shape{};               ///< (chunk, count) that gives the element count; space unused. Every
                               ///< piece of the step, and the shape of the peer's step at the other
                               ///< end of a channel, has the same count and the same chunk % k
  std::vector<Operand> inputs; ///< at least one
  std::optional<Piece> output;
  std::vector<int> sends; ///< indices into RankPlan::channels
  std::vector<Dependency> after;
  bool to_all = false; ///< output lies in the window, and is stored to that of every rank
  /// A meeting, which has none of the above: the n-th of a tile is over when all ranks have come to
  /// their n-th. All of a plan's meetings, and all that touches windows, is in one lane.
  bool is_barrier = false;

  bool operator==(const Step&) const = default;
};

/// Steps in order. Lanes of a rank run concurrently; on a GPU a lane is a thread block.
struct Lane {
  std::vector<Step> steps;

  bool operator==(const Lane&) const = default;
};

/// What one rank does. The engine repeats every lane for each tile of the count (pipelining); a
/// lane may be a tile ahead of another lane unless `after` or a channel holds it back. A message of
/// a tile is one slot.
struct RankPlan {
  Spec spec;
  int rank = 0;
  std::uint32_t chunks_per_block = 1; ///< k; equal on all ranks
  std::uint32_t scratch_chunks = 0;
  std::uint32_t window_chunks = 0;  ///< equal on all ranks
  std::uint32_t message_chunks = 1; ///< no message of any rank holds more, nor a window; equal on
                                    ///< all ranks, which so cut the count into the same tiles
  std::vector<Channel> channels;    ///< those that this rank uses; each by one lane only
  std::vector<Lane> lanes;

  bool operator==(const RankPlan&) const = default;
};

/// Blocks that a plan may name; 0 where the rank has no such buffer.
std::uint32_t inputBlocks(const Spec& spec, int rank);
std::uint32_t outputBlocks(const Spec& spec, int rank);

/// Cost of a link and of arithmetic, for Algorithm::cost().
struct Link {
  double alpha = 1e-6;  ///< seconds per message
  double beta = 1e-10;  ///< seconds per byte
  double gamma = 5e-11; ///< seconds per byte reduced
};

/// Counted properties, as the closed forms give them. Units of bytes: the bytes n of one block of
/// the call ("count" elements), so 2*(p-1)/p stands for 2n(p-1)/p. What an algorithm cannot say in
/// closed form is kUnclaimed.
struct ClosedForm {
  static constexpr int kUnclaimed = -1;

  int rounds = 0;                    ///< see check.h for how rounds are counted
  double total_sent = 0;             ///< all ranks together
  double max_sent = 0;               ///< the rank that sends most
  double between_nodes = kUnclaimed; ///< of all ranks, to ranks of other nodes of Spec::layout
};

/// An algorithm only describes. All functions are pure.
struct Algorithm {
  std::string_view name;
  std::string_view summary; ///< one line, lower case, for help and `rondo plan`
  bool (*supports)(const Spec&);
  /// Predicted seconds for blocks of `bytes`.
  double (*cost)(const Spec&, const Link&, double bytes);
  ClosedForm (*closedForm)(const Spec&);
  RankPlan (*build)(const Spec&, int rank);
  bool composes = false; ///< of two algorithms, which the spec may name: Spec::inner, outer
};

} // namespace rondo::plan
