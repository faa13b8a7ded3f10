// Computes how many blocks of its spaces a plan may use.
#include "plan/plan.h"

namespace rondo::plan {
namespace {

std::uint32_t blocks(const detail::BufferBlocks& buffer, const Spec& spec, int rank) {
  // If nothing moves, steps use one block of 0 elements.
  if (!traits(spec.collective).movesData()) return 1;
  return static_cast<std::uint32_t>(buffer.count(spec.ranks, rank, spec.root));
}

} // namespace

std::uint32_t inputBlocks(const Spec& spec, int rank) {
  return blocks(traits(spec.collective).input, spec, rank);
}

std::uint32_t outputBlocks(const Spec& spec, int rank) {
  return blocks(traits(spec.collective).output, spec, rank);
}

} // namespace rondo::plan
