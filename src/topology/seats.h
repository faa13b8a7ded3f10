// Where the ranks of a job would sit on machines that are only described.
#pragma once

#include <vector>

#include "topology/bind.h"
#include "topology/link.h"
#include "topology/machine.h"

namespace rondo::topology {

/// What a rank has of its machine. GPU and card are places in Machine::objects, -1: none.
struct Seat {
  int node = 0; ///< of Machine::nodes
  Processors processors;
  int gpu = -1;
  int card = -1; ///< nearest to the GPU, else to the processors; of a rail, where there are rails
};

/// Ranks in turn, as many on each node as on the others, or one more. Where a node has a GPU for
/// each of its ranks, rank by rank they have one, and processors near it. bindings() gives
/// processors to ranks that are near the same ones; a list in `rule` gives its r-th to rank r of a
/// node, whatever it is near. All are of Machine::allowed; a rank whose GPU is near none of these
/// may have any of them. Of cards that are equally near, ranks in turn have one. Throws
/// Error(invalid_argument) for a list that gives a rank a processor that is not allowed.
std::vector<Seat> seatsFor(const Machine& machine, const BindRule& rule, int ranks);

/// Between their GPUs, else their processors; between nodes a rail, where both cards are of one.
Link linkBetween(const Machine& machine, const Seat& a, const Seat& b);

/// The name of the card's rail; "" for none.
std::string railOf(const Machine& machine, int card);

} // namespace rondo::topology
