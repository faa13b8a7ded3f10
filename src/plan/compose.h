// Composes plans: runs collectives among some of the ranks one after the other.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// A block of the whole collective's memory, or one of several shares of a block.
struct Unit {
  Space space = Space::input;
  int block = 0;
  int share = 0; ///< which of Part::shares

  bool operator==(const Unit&) const = default;
};

/// The place of one block of a part on this rank: units, which need not be contiguous.
using Units = std::vector<Unit>;

/// A collective among some ranks, by an algorithm that knows only these. Its blocks are units of
/// the whole collective's memory, and its steps come from the algorithm's own plan.
struct Part {
  const Algorithm* algorithm = nullptr;
  Spec spec;              ///< of the part; its ranks are positions in `ranks`
  std::vector<int> ranks; ///< ranks of the whole collective
  int shares = 1;         ///< a unit is 1/shares of a block
  /// Number of units in each rank's block. If they differ, or if `scattered` says that blocks are
  /// different shares, the algorithm must serve blocks of different sizes (plan/uneven.h).
  std::vector<int> weights;
  bool scattered = false;
  /// Places on this rank, by block. Empty on ranks outside the part, and if the rank has no such
  /// buffer. Input and output may be the same if the collective can run in place.
  std::vector<Units> input, output;

  bool alike() const;
};

/// This rank's plan for the whole collective. Each part gets lanes of its own, which are repeated
/// for each unit of its blocks, and for slices of a unit if another part cuts it into more chunks.
/// A step waits for steps of earlier parts on this rank that write what it reads, or touch what it
/// writes, so the parts follow each other chunk by chunk. All ranks pass the same parts in the same
/// order, with their own places. Scratch blocks in places belong to the composition.
RankPlan compose(const Spec& whole, int rank, std::span<const Part> parts);

/// Whether the algorithm can do the part: it supports the spec, serves blocks of different sizes if
/// there are any, and has no message with several blocks, because these may lie apart.
bool serves(const Algorithm& algorithm, const Part& part);

} // namespace rondo::plan
