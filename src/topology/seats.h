// Computes where the ranks of a job would run on machines that are only described by a file.
#pragma once

#include <vector>

#include "topology/bind.h"
#include "topology/link.h"
#include "topology/machine.h"

namespace rondo::topology {

/// What a rank uses of its machine. `gpu` and `card` are indices in Machine::objects; -1: none.
struct Seat {
  int node = 0; ///< index in Machine::nodes
  Processors processors;
  int gpu = -1;
  int card = -1; ///< nearest to the GPU, or to the processors; of a rail, if there are rails
};

/// Assigns ranks to nodes in consecutive runs whose lengths differ by at most one. If a node has at
/// least as many GPUs as ranks, its i-th rank gets GPU i, and processors near it. bindings()
/// divides processors among the ranks that are near the same ones; a list in `rule` gives its i-th
/// processor to the i-th rank of the node, wherever the GPU is. All processors are in
/// Machine::allowed; a rank whose GPU is near none of these may get any of them. Ranks take equally
/// near cards in turn. Throws Error(invalid_argument) if a list gives a rank a processor that is
/// not allowed.
std::vector<Seat> seatsFor(const Machine& machine, const BindRule& rule, int ranks);

/// Link between the ranks' GPUs, or, without GPUs, between their processors; between nodes a rail,
/// if both cards are in the same one, or the network.
Link linkBetween(const Machine& machine, const Seat& a, const Seat& b);

/// Name of the card's rail; "" if it is in none.
std::string railOf(const Machine& machine, int card);

} // namespace rondo::topology
