// One call of a collective with its arguments, as the benchmark repeats it.
#include "tools/bench/call.h"

namespace rondo::tools {

void Call::run() const {
  Communicator& c = *comm;
  switch (collective) {
    case Collective::allreduce: c.allReduce(input, output, count, type, op); break;
    case Collective::reduce: c.reduce(input, output, count, type, op, root); break;
    case Collective::reducescatter: c.reduceScatter(input, output, count, type, op); break;
    case Collective::broadcast: c.broadcast(input, output, count, type, root); break;
    case Collective::scatter: c.scatter(input, output, count, type, root); break;
    case Collective::gather: c.gather(input, output, count, type, root); break;
    case Collective::allgather: c.allGather(input, output, count, type); break;
    case Collective::alltoall: c.allToAll(input, output, count, type); break;
    case Collective::barrier: c.barrier(); break;
    case Collective::sendrecv: runGroup(1); break;
  }
}

Work Call::start() const {
  Communicator& c = *comm;
  switch (collective) {
    case Collective::allreduce: return c.allReduceAsync(input, output, count, type, op);
    case Collective::reduce: return c.reduceAsync(input, output, count, type, op, root);
    case Collective::reducescatter: return c.reduceScatterAsync(input, output, count, type, op);
    case Collective::broadcast: return c.broadcastAsync(input, output, count, type, root);
    case Collective::scatter: return c.scatterAsync(input, output, count, type, root);
    case Collective::gather: return c.gatherAsync(input, output, count, type, root);
    case Collective::allgather: return c.allGatherAsync(input, output, count, type);
    case Collective::alltoall: return c.allToAllAsync(input, output, count, type);
    case Collective::barrier: return c.barrierAsync();
    case Collective::sendrecv: break;
  }
  return startGroup(1);
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
  const auto block = [&](int index) { return static_cast<std::size_t>(index) * count; };
  const auto* data = static_cast<const std::byte*>(output);
  // Counts wrong elements in an output that holds, for every rank, `count` elements of its input
  // from element `first` on.
  const auto gathered = [&](std::size_t first) {
    std::size_t wrong = 0;
    for (int from = 0; from < ranks; ++from) {
      wrong += pattern.differsFromInput(data + block(from) * sizeOf(type), from, first, count);
    }
    return wrong;
  };
  switch (collective) {
    case Collective::allreduce: return pattern.differsFromReduction(data, 0, count);
    case Collective::reduce: return rank == root ? pattern.differsFromReduction(data, 0, count) : 0;
    case Collective::reducescatter: return pattern.differsFromReduction(data, block(rank), count);
    case Collective::broadcast: return pattern.differsFromInput(data, root, 0, count);
    case Collective::scatter: return pattern.differsFromInput(data, root, block(rank), count);
    case Collective::gather: return rank == root ? gathered(0) : 0;
    case Collective::allgather: return gathered(0);
    case Collective::alltoall: return gathered(block(rank));
    case Collective::sendrecv:
      return pattern.differsFromInput(data, (rank + ranks - 1) % ranks, 0, count);
    case Collective::barrier: break;
  }
  return 0;
}

} // namespace rondo::tools
