// One call of a collective with its arguments, as the benchmark repeats it.
#include "tools/bench/call.h"

namespace rondo::tools {

void Call::run() const {
  if (collective == Collective::sendrecv) runGroup(1);
  else comm->call({collective, input, output, count, type, op, root});
}

Work Call::start() const {
  if (collective == Collective::sendrecv) return startGroup(1);
  return comm->callAsync({collective, input, output, count, type, op, root});
}

namespace {

/// Adds one call to the open group.
void addToGroup(const Call& call) {
  if (call.collective != Collective::sendrecv) {
    call.run();
    return;
  }
  const int ranks = call.comm->size();
  const int rank = call.comm->rank();
  call.comm->send(call.input, call.count, call.type, (rank + 1) % ranks);
  call.comm->recv(call.output, call.count, call.type, (rank + ranks - 1) % ranks);
}

} // namespace

void Call::runGroup(int calls) const {
  Group group;
  for (int i = 0; i < calls; ++i) addToGroup(*this);
  group.end();
}

Work Call::startGroup(int calls) const {
  Group group;
  for (int i = 0; i < calls; ++i) addToGroup(*this);
  return group.start();
}

std::size_t Call::wrongElements(const Pattern& pattern) const {
  const int ranks = comm->size();
  const int rank = comm->rank();
  const auto* data = static_cast<const std::byte*>(output);
  if (collective == Collective::sendrecv)
    return pattern.differsFromInput(data, (rank + ranks - 1) % ranks, 0, count);
  const detail::CollectiveTraits& of = traits(collective);
  const std::size_t first = of.input.own(rank) * count;
  std::size_t wrong = 0;
  for (std::size_t b = 0; b < of.output.count(ranks, rank, root); ++b) {
    const std::byte* block = data + b * count * sizeOf(type);
    const detail::RankRange from = of.contributorsTo(rank, static_cast<int>(b), root, ranks);
    wrong += of.reduces() ? pattern.differsFromReduction(block, from, first, count)
                          : pattern.differsFromInput(block, from.first, first, count);
  }
  return wrong;
}

} // namespace rondo::tools
