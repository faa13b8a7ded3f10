// bruck: partners at distance 1, 2, 4, ...; ceil(log2 p) rounds for any number of ranks.
//
// Allgather: after the round of distance d, a rank has in scratch the blocks of itself and of the
// next 2d-1 ranks, in this order. It sends the first d of them to the rank d places to the left. At
// the end two copies bring the blocks to their places. The bytes are those of the ring, in log2 p
// rounds.
//
// AlltoAll: a block that must move j places to the right moves by the binary digits of j: it is
// sent in the round of distance d if j has that digit. So a block is sent several times, and the
// blocks of a round are packed together first. For small blocks, where rounds count more than
// bytes.
//
// Time, blocks of n bytes: Allgather log2 p alpha + (p-1) n beta; AlltoAll log2 p (alpha + n p/2
// beta).
#include <algorithm>
#include <bit>
#include <vector>

#include "plan/builder.h"
#include "plan/patterns.h"

namespace rondo::algorithms {
namespace {

using namespace plan;

bool supports(const Spec& spec) {
  return plain(spec) &&
         (spec.collective == Collective::allgather || spec.collective == Collective::alltoall);
}

/// AlltoAll: number of blocks that a rank sends in all rounds, the sum of the binary ones of
/// 1..p-1.
int carried(int ranks) {
  int ones = 0;
  for (int j = 1; j < ranks; ++j) ones += std::popcount(static_cast<unsigned>(j));
  return ones;
}

int sentPerRank(const Spec& spec) {
  return spec.collective == Collective::allgather ? spec.ranks - 1 : carried(spec.ranks);
}

double cost(const Spec& spec, const Link& link, double bytes) {
  return ceilLog2(spec.ranks) * link.alpha + sentPerRank(spec) * bytes * link.beta;
}

ClosedForm closedForm(const Spec& spec) {
  const double sent = sentPerRank(spec);
  return {ceilLog2(spec.ranks), spec.ranks * sent, sent};
}

RankPlan buildAllgather(const Spec& spec, int rank) {
  const int p = spec.ranks;
  Builder plan(spec, rank, 1, bruckDistances(p).back());
  auto lane = plan.lane();
  // scratch(i) is the block of rank + i. The first message is sent in the step that stores the own
  // block.
  lane.copy(in(0), scratch(0)).send(wrap(rank - 1, p));
  for (const int d : bruckDistances(p)) {
    const int blocks = std::min(d, p - d);
    if (d > 1) lane.send(scratch(0, blocks), wrap(rank - d, p));
    lane.recv(wrap(rank + d, p), scratch(d, blocks));
  }
  lane.copy(scratch(0, p - rank), out(rank, p - rank));
  if (rank > 0) lane.copy(scratch(p - rank, rank), out(0, rank));
  return plan.take();
}

RankPlan buildAllToAll(const Spec& spec, int rank) {
  const int p = spec.ranks;
  Builder plan(spec, rank, 1, p / 2);
  auto lane = plan.lane();
  // held[j]: the current place of the block that has to move, or has moved, j places.
  std::vector<Piece> held;
  for (int j = 0; j < p; ++j) held.push_back(in(wrap(rank + j, p)));
  lane.copy(in(rank), out(rank));
  int used = 0; // number of scratch blocks
  for (const int d : bruckDistances(p)) {
    std::vector<int> moving;
    for (int j = 1; j < p; ++j) {
      if ((j & d) != 0) moving.push_back(j);
    }
    const int blocks = static_cast<int>(moving.size());
    Piece packed = held[static_cast<std::size_t>(moving.front())];
    if (blocks > 1) {
      packed = scratch(used, blocks);
      for (const int j : moving) lane.copy(held[static_cast<std::size_t>(j)], scratch(used++));
    }
    lane.send(packed, wrap(rank + d, p));
    lane.recv(wrap(rank - d, p), scratch(used, blocks));
    for (const int j : moving) held[static_cast<std::size_t>(j)] = scratch(used++);
  }
  for (int j = 1; j < p; ++j) lane.copy(held[static_cast<std::size_t>(j)], out(wrap(rank - j, p)));
  return plan.take();
}

RankPlan build(const Spec& spec, int rank) {
  if (spec.ranks == 1) return alone(spec);
  return spec.collective == Collective::allgather ? buildAllgather(spec, rank)
                                                  : buildAllToAll(spec, rank);
}

} // namespace

extern const plan::Algorithm bruck;
const plan::Algorithm bruck{
    .name = "bruck",
    .summary = "partners at distance 1, 2, 4, ..., for any number of ranks",
    .supports = supports,
    .cost = cost,
    .closedForm = closedForm,
    .build = build,
};

} // namespace rondo::algorithms
