// What each collective is: one row per collective, which everything else reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rondo/export.h"

namespace rondo {

/// What a call does; also the key of the algorithm registry.
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

/// What a buffer of a collective holds, in blocks of the call's `count` elements.
struct BufferBlocks {
  enum class Number : std::uint8_t { none, one, one_per_rank };

  Number number = Number::none;
  bool root_only = false; ///< the other ranks have no such buffer

  constexpr bool perRank() const { return number == Number::one_per_rank; }
  constexpr std::size_t count(int ranks, bool is_root) const {
    if (number == Number::none || (root_only && !is_root)) return 0;
    return perRank() ? static_cast<std::size_t>(ranks) : 1;
  }
  /// The block that belongs to the rank itself.
  constexpr std::size_t own(int rank) const {
    return perRank() ? static_cast<std::size_t>(rank) : 0;
  }
};

/// Whose input a block of the output is made from. Of an input with a block for each rank, it is
/// the block of the rank that receives.
enum class Contributors : std::uint8_t {
  nobody, ///< no data move
  peer,   ///< the sender
  root,
  of_block, ///< the rank that the block of the output belongs to
  everyone, ///< all ranks' contributions, reduced
};

struct CollectiveTraits {
  Collective collective{};
  std::string_view name;  ///< lower case, as in options and commands
  std::string_view title; ///< as NCCL spells it
  std::string_view alias; ///< read like the name; may be empty
  BufferBlocks input{}, output{};
  Contributors contributors = Contributors::nobody;
  /// Whether the output may be the input: the same buffer where both have as many blocks, else the
  /// smaller one is the rank's own block of the larger one.
  bool in_place = false;

  constexpr bool reduces() const { return contributors == Contributors::everyone; }
  constexpr bool movesData() const { return contributors != Contributors::nobody; }
  constexpr bool hasRoot() const { return input.root_only || output.root_only; }
  /// Whether a buffer has a block for each rank. These have a v-form, with blocks of several sizes.
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
    "a row stands in another place than its collective");

constexpr bool reduces(Collective c) { return traits(c).reduces(); }
constexpr bool hasRoot(Collective c) { return traits(c).hasRoot(); }

/// "allreduce", "reducescatter", ...
RONDO_API std::string_view name(Collective collective);
/// Inverse of name(); takes aliases too. Throws Error(invalid_argument).
RONDO_API Collective parseCollective(std::string_view text);

} // namespace rondo
