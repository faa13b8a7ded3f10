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

  /// Makes the blocking call. For sendrecv: sends to the next rank and receives from the
  /// previous one.
  void run() const;
  /// Starts the same call.
  Work start() const;
  /// Makes `calls` of them as one group.
  void runGroup(int calls) const;
  Work startGroup(int calls) const;

  /// Number of output elements that differ from the result of the pattern's inputs. 0
  /// for a barrier.
  std::size_t wrongElements(const Pattern& pattern) const;
};

} // namespace rondo::tools
