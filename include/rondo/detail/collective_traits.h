// Properties of collectives: the rows of collectives.def. Not part of the public API. Included only
// by rondo/collectives.h.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/collectives.h"

namespace rondo::detail {

/// How many blocks a buffer of a collective has, and on which ranks it exists. A block has the
/// call's `count` elements.
struct BufferBlocks {
  enum class Number : std::uint8_t { none, one, one_per_rank };
  enum class Holders : std::uint8_t { all, root, all_but_rank_0 };

  Number number = Number::none;
  Holders holders = Holders::all; ///< the other ranks do not have this buffer

  constexpr bool perRank() const { return number == Number::one_per_rank; }
  constexpr bool rootOnly() const { return holders == Holders::root; }
  constexpr std::size_t count(int ranks, int rank, int root) const {
    if (number == Number::none || (rootOnly() && rank != root)) return 0;
    if (holders == Holders::all_but_rank_0 && rank == 0) return 0;
    return perRank() ? static_cast<std::size_t>(ranks) : 1;
  }
  /// Index of the rank's own block.
  constexpr std::size_t own(int rank) const {
    return perRank() ? static_cast<std::size_t>(rank) : 0;
  }
};

/// The ranks whose input a block of the output is made from. If the input has one block for each
/// rank, the block of the receiving rank is used.
enum class Contributors : std::uint8_t {
  nobody, ///< no data move
  peer,   ///< the sender
  root,
  of_block, ///< the rank to which the block of the output belongs
  // From here on the contributions are reduced.
  everyone,
  up_to_own,  ///< rank 0 to the receiving rank
  before_own, ///< rank 0 to the one before the receiving rank
};

/// Ranks [first, end).
struct RankRange {
  int first = 0, end = 0;

  constexpr bool empty() const { return first == end; }
  auto operator<=>(const RankRange&) const = default;
};

struct CollectiveTraits {
  Collective collective{};
  std::string_view name;  ///< lower case, as in options and commands
  std::string_view title; ///< in NCCL's spelling
  std::string_view alias; ///< accepted in place of the name; may be empty
  BufferBlocks input{}, output{};
  Contributors contributors = Contributors::nobody;
  /// Whether the call may run in place: input and output are the same buffer if both have as many
  /// blocks; otherwise the smaller buffer is the rank's own block of the larger one.
  bool in_place = false;

  constexpr bool reduces() const { return contributors >= Contributors::everyone; }
  constexpr bool movesData() const { return contributors != Contributors::nobody; }
  constexpr bool hasRoot() const { return input.rootOnly() || output.rootOnly(); }
  /// The ranks whose input block `block` of `rank`'s output is made from, in this order if they are
  /// reduced. Each contributes block input.own(rank) of its input. Empty for barriers, and for Send
  /// and Recv.
  constexpr RankRange contributorsTo(int rank, int block, int root, int ranks) const {
    switch (contributors) {
      case Contributors::root: return {root, root + 1};
      case Contributors::of_block: return {block, block + 1};
      case Contributors::everyone: return {0, ranks};
      case Contributors::up_to_own: return {0, rank + 1};
      case Contributors::before_own: return {0, rank};
      case Contributors::nobody:
      case Contributors::peer: break;
    }
    return {};
  }
  /// Whether a buffer has one block for each rank. Such a collective has a v-form, with blocks of
  /// different sizes.
  constexpr bool perRank() const { return input.perRank() || output.perRank(); }
  /// Number of blocks that the size of a call counts. nccl-tests counts in the same way.
  constexpr std::size_t blocksOfSize(int ranks) const {
    return perRank() ? static_cast<std::size_t>(ranks) : 1;
  }
};

inline constexpr auto kCollectiveTraits = [] {
  using C = Collective;
  using From = Contributors;
  constexpr BufferBlocks none{};
  constexpr BufferBlocks one{BufferBlocks::Number::one};
  constexpr BufferBlocks each{BufferBlocks::Number::one_per_rank};
  constexpr BufferBlocks root_one{BufferBlocks::Number::one, BufferBlocks::Holders::root};
  constexpr BufferBlocks root_each{BufferBlocks::Number::one_per_rank, BufferBlocks::Holders::root};
  constexpr BufferBlocks one_but_rank_0{BufferBlocks::Number::one,
                                        BufferBlocks::Holders::all_but_rank_0};
  return std::to_array<CollectiveTraits>({
#define RONDO_COLLECTIVE(collective, ...) {C::collective, #collective, __VA_ARGS__},
#include "rondo/detail/collectives.def"
  });
}();

} // namespace rondo::detail

namespace rondo {

constexpr const detail::CollectiveTraits& traits(Collective c) {
  return detail::kCollectiveTraits[static_cast<std::size_t>(c)];
}

} // namespace rondo
