// Properties of each collective: one row each, which everything else reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

/// The collectives; also the key of the algorithm registry.
enum class Collective : std::uint8_t {
  allreduce,
  reduce,
  reducescatter,
  broadcast,
  scatter,
  gather,
  allgather,
  alltoall,
  barrier,
  sendrecv, ///< one Send or Recv
};

/// What a buffer of a collective contains, in blocks of the call's `count` elements.
struct BufferBlocks {
  enum class Number : std::uint8_t { none, one, one_per_rank };

  Number number = Number::none;
  bool root_only = false; ///< the other ranks do not have this buffer

  constexpr bool perRank() const { return number == Number::one_per_rank; }
  constexpr std::size_t count(int ranks, bool is_root) const {
    if (number == Number::none || (root_only && !is_root)) return 0;
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
  everyone, ///< all ranks' contributions, reduced
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

  constexpr bool reduces() const { return contributors == Contributors::everyone; }
  constexpr bool movesData() const { return contributors != Contributors::nobody; }
  constexpr bool hasRoot() const { return input.root_only || output.root_only; }
  /// Whether a buffer has one block for each rank. Such a collective has a v-form, with blocks of
  /// different sizes.
  constexpr bool perRank() const { return input.perRank() || output.perRank(); }
};

/// One row per collective, in the order of the enumeration.
inline constexpr auto kCollectiveTraits = [] {
  using C = Collective;
  using From = Contributors;
  constexpr BufferBlocks none{};
  constexpr BufferBlocks one{BufferBlocks::Number::one};
  constexpr BufferBlocks each{BufferBlocks::Number::one_per_rank};
  constexpr BufferBlocks root_one{BufferBlocks::Number::one, true};
  constexpr BufferBlocks root_each{BufferBlocks::Number::one_per_rank, true};
  return std::to_array<CollectiveTraits>({
      // collective, name, title, alias, input, output, contributors, in_place
      {C::allreduce, "allreduce", "AllReduce", "all_reduce", one, one, From::everyone, true},
      {C::reduce, "reduce", "Reduce", "", one, root_one, From::everyone, true},
      {C::reducescatter, "reducescatter", "ReduceScatter", "reduce_scatter", each, one,
       From::everyone, true},
      {C::broadcast, "broadcast", "Broadcast", "bcast", root_one, one, From::root, true},
      {C::scatter, "scatter", "Scatter", "", root_each, one, From::root, true},
      {C::gather, "gather", "Gather", "", one, root_each, From::of_block, true},
      {C::allgather, "allgather", "AllGather", "all_gather", one, each, From::of_block, true},
      {C::alltoall, "alltoall", "AllToAll", "all_to_all", each, each, From::of_block, false},
      {C::barrier, "barrier", "Barrier", "", none, none, From::nobody, false},
      {C::sendrecv, "sendrecv", "Send/Recv", "send_recv", one, one, From::peer, false},
  });
}();

inline constexpr std::size_t kCollectiveCount = kCollectiveTraits.size();

constexpr const CollectiveTraits& traits(Collective c) {
  return kCollectiveTraits[static_cast<std::size_t>(c)];
}

inline constexpr auto kCollectives = [] {
  std::array<Collective, kCollectiveCount> all{};
  for (std::size_t i = 0; i < kCollectiveCount; ++i) all[i] = static_cast<Collective>(i);
  return all;
}();

static_assert(
    [] {
      for (const Collective c : kCollectives)
        if (traits(c).collective != c) return false;
      return true;
    }(),
    "the rows are not in the order of the enumeration");

constexpr bool reduces(Collective c) { return traits(c).reduces(); }
constexpr bool hasRoot(Collective c) { return traits(c).hasRoot(); }

/// "allreduce", "reducescatter", ...
RONDO_API std::string_view name(Collective collective);
/// Inverse of name(); takes aliases too. Throws Error(invalid_argument).
RONDO_API Collective parseCollective(std::string_view text);

} // namespace rondo
