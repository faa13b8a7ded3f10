// How many blocks each collective has in each space: the table of plan.h.
#include "plan/plan.h"

namespace rondo::plan {

std::uint32_t inputBlocks(const Spec& spec, int rank) {
  const auto ranks = static_cast<std::uint32_t>(spec.ranks);
  switch (spec.collective) {
    case Collective::reducescatter:
    case Collective::alltoall: return ranks;
    case Collective::broadcast: return rank == spec.root ? 1 : 0;
    case Collective::scatter: return rank == spec.root ? ranks : 0;
    default: return 1;
  }
}

std::uint32_t outputBlocks(const Spec& spec, int rank) {
  const auto ranks = static_cast<std::uint32_t>(spec.ranks);
  switch (spec.collective) {
    case Collective::allgather:
    case Collective::alltoall: return ranks;
    case Collective::reduce: return rank == spec.root ? 1 : 0;
    case Collective::gather: return rank == spec.root ? ranks : 0;
    default: return 1;
  }
}

} // namespace rondo::plan
