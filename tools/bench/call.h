// One call of a collective with its arguments, as the benchmark repeats it.
#pragma once

#include <cstddef>

#include "rondo/communicator.h"
#include "rondo/types.h"
#include "tools/bench/data.h"

namespace rondo::tools {

struct Call {
  Communicator* comm = nullptr;
  Collective collective = Collective::allreduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;

  /// Blocking. sendrecv: sends to the next rank and receives from the previous one.
  void run() const;
  /// The same, in flight.
  Work start() const;
  /// `calls` of them as one group.
  void runGroup(int calls) const;
  Work startGroup(int calls) const;

  /// Elements of the output that are not what the pattern's inputs make of them. Nothing to check
  /// for a barrier.
  std::size_t wrongElements(const Pattern& pattern) const;
};

} // namespace rondo::tools
