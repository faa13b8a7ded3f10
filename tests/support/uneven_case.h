// v-forms with blocks of many sizes, in reverse order and with gaps, checked on every rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/communicator.h"

namespace rondo::test {

inline constexpr std::uint32_t kGap = 0xa5a5a5a5;
using Words = std::vector<std::uint32_t>;
using Sizes = std::vector<std::size_t>;

/// Word `i` of the block from rank `from` to rank `to` (-1: from all, or to all).
std::uint32_t word(int from, int to, std::size_t i);

/// Blocks in reverse order with gaps between them.
struct UnevenBuffer {
  Sizes counts, offsets;
  Words words;

  explicit UnevenBuffer(Sizes sizes) : counts(std::move(sizes)), offsets(counts.size()) {
    std::size_t at = 3;
    for (std::size_t b = counts.size(); b-- > 0;) {
      offsets[b] = at;
      at += counts[b] + b % 3;
    }
    words.assign(at + 2, kGap);
  }
  Blocks blocks() const { return {counts, offsets}; }
  std::uint32_t* block(std::size_t b) { return words.data() + offsets[b]; }
  void fill(std::size_t b, int from, int to) {
    for (std::size_t i = 0; i < counts[b]; ++i) block(b)[i] = word(from, to, i);
  }
  bool operator==(const UnevenBuffer&) const = default;
};

/// A single block.
Words single(int from, int to, std::size_t count);

/// `seed` 0: all blocks are empty; 1: all but one; other: sizes around 1024 words.
struct UnevenCase {
  int seed = 0;
  int root = 0;
  bool in_place = false, async = false;
};

/// The v-forms. Each function makes the call on this rank and returns what is wrong with its
/// output.
using UnevenForm = std::string (*)(const UnevenCase&, Communicator&);
std::string gatherv(const UnevenCase& one, Communicator& comm);
std::string scatterv(const UnevenCase& one, Communicator& comm);
std::string allGatherv(const UnevenCase& one, Communicator& comm);
std::string allToAllv(const UnevenCase& one, Communicator& comm);
std::string reduceScatterv(const UnevenCase& one, Communicator& comm);

/// An AllGatherv of one large block, that of the rank in the middle, for which rank 0 comes late.
std::string lateAllGatherv(Communicator& comm, std::size_t words);

/// All forms, seeds, roots, in place and not, blocking and not. Returns the first complaint.
std::string everyUneven(Communicator& comm, int seeds);

} // namespace rondo::test
