// The plan of one rank in a collective, as a value that everything else reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layout.h"
#include "rondo/types.h"

namespace rondo::plan {

/// The question to an algorithm.
struct Spec {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int root = 0;
  int parameter = 0;  ///< number after '/' in "parameter_server/4"; 0: the algorithm's default
  Layout layout = {}; ///< nodes and sockets of the ranks; without levels: all alike
  /// The algorithms in the brackets of "hierarchical(linear,ring)", as numbers in the registry from
  /// 1 on; 0: the algorithm's defaults.
  int inner = 0, outer = 0;
  /// Each rank has a window, and a switch can add up all windows and store to all of them, for the
  /// type and operator of the call.
  bool multicast = false;

  bool operator==(const Spec&) const = default;
  auto operator<=>(const Spec&) const = default;
};

/// Memory of the rank that runs the step.
///
/// All spaces are divided by one rule. A *block* has the `count` elements of the public call. A
/// plan divides every block into k = RankPlan::chunks_per_block chunks. Chunk i lies in block i/k;
/// with j = i%k it covers the elements floor(j*count/k) to floor((j+1)*count/k) of the block. So a
/// count need not be divisible, and one plan serves all counts. (If a plan has windows, both limits
/// are rounded up to the unit of a switch, kWindowAlignBytes, but not past the block.) Input and
/// output have the blocks of rondo/collectives.h (a barrier's steps use one block of 0 elements).
/// Scratch and window have as many blocks as their chunks need, and are undefined at the start of a
/// tile.
///
/// Window is scratch that a switch reaches (Spec::multicast). A step may read the sum of a piece of
/// all ranks' windows (Operand::of_all), and write a piece of all windows (Step::to_all). Only
/// barriers (Step::is_barrier) order the accesses of different ranks to windows.
///
/// In-place rule for plans: if CollectiveTraits::in_place allows it, the plan must also be right in
/// place. Once an output chunk is written, the input chunk at the same place is lost. Otherwise the
/// input is never written.
enum class Space : std::uint8_t { input, output, scratch, window };

/// `count` consecutive chunks, starting with `chunk`. They may cross block boundaries.
struct Piece {
  Space space = Space::input;
  std::uint32_t chunk = 0;
  std::uint32_t count = 1;

  bool operator==(const Piece&) const = default;
};

/// Whether the two share a chunk, in plans whose spaces share no memory.
inline bool overlap(const Piece& a, const Piece& b) {
  return a.space == b.space && a.chunk < b.chunk + b.count && b.chunk < a.chunk + a.count;
}

/// One direction between two ranks; `index` distinguishes several channels between the same two.
/// src == dst only in a Send or Recv to oneself: the checker refuses it in a collective.
struct Channel {
  int src = 0, dst = 0, index = 0;

  auto operator<=>(const Channel&) const = default;
};

/// One input of a step: the next message of a channel, or a local piece.
struct Operand {
  static constexpr int kLocal = -1;
  int channel = kLocal; ///< index into RankPlan::channels, or kLocal
  Piece piece{};        ///< local: the piece that is read; otherwise unused
  /// For a local piece in the window: the operand is the sum of this piece of all ranks' windows,
  /// in an unknown order. It must be the step's only operand.
  bool of_all = false;

  bool local() const { return channel == kLocal; }
  bool operator==(const Operand&) const = default;
};

/// "Step `step` of lane `lane` of this rank must be done (for the same tile)."
struct Dependency {
  std::uint32_t lane = 0, step = 0;

  bool operator==(const Dependency&) const = default;
};

/// One fused operation. It waits for `after`, for a message on each channel operand, and for a free
/// slot on each channel of `sends`. Then it computes value = inputs[0] op inputs[1] op ... in this
/// order, in one pass, and writes the value to `output`, if there is one, and to each channel of
/// `sends`. Send, receive, copy, reduce and all their fused forms are special cases.
struct Step {
  Piece shape{};               ///< (chunk, count) that gives the element count; space unused. Every
                               ///< piece of the step, and the shape of the peer's step at the other
                               ///< end of a channel, has the same count and the same chunk % k
  std::vector<Operand> inputs; ///< at least one
  std::optional<Piece> output;
  std::vector<int> sends; ///< indices into RankPlan::channels
  std::vector<Dependency> after;
  bool to_all = false; ///< output lies in the window, and is stored to the windows of all ranks
  /// A barrier, which has none of the above. The n-th barrier of a tile is over when all ranks have
  /// reached their n-th. All barriers of a plan, and all accesses to windows, are in one lane.
  bool is_barrier = false;

  bool operator==(const Step&) const = default;
};

/// Steps in order. Lanes of a rank run concurrently; on a GPU a lane is a thread block.
struct Lane {
  std::vector<Step> steps;

  bool operator==(const Lane&) const = default;
};

/// What one rank does. The engine repeats every lane for each tile of the count, which pipelines
/// the call. A lane may be a tile ahead of another lane unless `after` or a channel holds it back.
/// A message of a tile occupies one slot.
struct RankPlan {
  Spec spec;
  int rank = 0;
  std::uint32_t chunks_per_block = 1; ///< k; equal on all ranks
  std::uint32_t scratch_chunks = 0;
  std::uint32_t window_chunks = 0; ///< equal on all ranks
  /// The most chunks in a message of any rank, or in a window. Equal on all ranks, so that all
  /// ranks cut the count into the same tiles.
  std::uint32_t message_chunks = 1;
  std::vector<Channel> channels; ///< used by this rank; each by one lane only
  std::vector<Lane> lanes;

  bool operator==(const RankPlan&) const = default;
};

/// Number of blocks that a plan may use; 0 if the rank has no such buffer.
std::uint32_t inputBlocks(const Spec& spec, int rank);
std::uint32_t outputBlocks(const Spec& spec, int rank);

/// Cost of a link and of arithmetic, for Algorithm::cost().
struct Link {
  double alpha = 1e-6;  ///< seconds per message
  double beta = 1e-10;  ///< seconds per byte
  double gamma = 5e-11; ///< seconds per byte reduced
};

/// Counted properties, as the closed forms give them. Bytes are in units of n, the bytes of one
/// block of the call ("count" elements), so 2*(p-1)/p means 2n(p-1)/p. kUnclaimed: the algorithm
/// has no closed form for the property.
struct ClosedForm {
  static constexpr int kUnclaimed = -1;

  int rounds = 0;                    ///< see count.h for how rounds are counted
  double total_sent = 0;             ///< all ranks together
  double max_sent = 0;               ///< the rank that sends most
  double between_nodes = kUnclaimed; ///< sent by all ranks to ranks of other nodes of Spec::layout
};

/// A description of an algorithm. All functions are pure.
struct Algorithm {
  std::string_view name;
  std::string_view summary; ///< one line, lower case, for help and `rondo plan`
  bool (*supports)(const Spec&);
  /// Predicted seconds for blocks of `bytes`.
  double (*cost)(const Spec&, const Link&, double bytes);
  ClosedForm (*closedForm)(const Spec&);
  RankPlan (*build)(const Spec&, int rank);
  bool composes = false; ///< combines two algorithms, which Spec::inner and outer may name
};

} // namespace rondo::plan
