// Plans made of plans: collectives among some of the ranks, one behind the other.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// A block of the whole collective's memory, or one of several shares of it.
struct Unit {
  Space space = Space::input;
  int block = 0;
  int share = 0; ///< of Part::shares

  bool operator==(const Unit&) const = default;
};

/// Where one block of a part lies on this rank: units, which need not follow each other.
using Units = std::vector<Unit>;

/// A collective among some ranks, done by an algorithm that knows only them. Its blocks are units
/// of the whole's memory; what it does follows from the algorithm's own plan.
struct Part {
  const Algorithm* algorithm = nullptr;
  Spec spec;              ///< of the part; its ranks are places in `ranks`
  std::vector<int> ranks; ///< in the whole
  int shares = 1;         ///< a unit is 1/shares of a block
  /// How many units each rank's block has. Where they differ, or `scattered` says that blocks are
  /// different shares, the algorithm must serve blocks of different sizes (plan/uneven.h).
  std::vector<int> weights;
  bool scattered = false;
  /// Of this rank, by block; empty on ranks outside, and where the rank has no such buffer. Input
  /// may be where output is, if the collective can be done in place.
  std::vector<Units> input, output;

  bool alike() const;
};

/// This rank's plan for the whole: the parts' steps, in lanes of their own, repeated for each unit
/// of their blocks, and for slices of a unit where another part cuts it into more chunks. A step
/// waits for those of earlier parts on this rank that write what it reads, or touch what it writes;
/// so the parts follow each other chunk by chunk. Every rank passes the same parts in the same
/// order, with places of its own; scratch blocks that places name are the composition's.
RankPlan compose(const Spec& whole, int rank, std::span<const Part> parts);

/// Whether the algorithm can do the part: it supports the spec, serves blocks of different sizes if
/// there are such, and has no message of several blocks, which may lie apart.
bool serves(const Algorithm& algorithm, const Part& part);

} // namespace rondo::plan
