// Any call of a collective as one value, for code that makes calls without knowing which.
#pragma once

#include <cstddef>
#include <span>

#include "rondo/collectives.h"
#include "rondo/types.h"

namespace rondo {

/// Position of the blocks of a v-form in a buffer that has one block for each rank: block r has
/// counts[r] elements and begins offsets[r] elements after the start of the buffer. Both spans have
/// size() entries; they are read during the call only, also by the Async forms. Blocks that are
/// written must not overlap.
struct Blocks {
  std::span<const std::size_t> counts, offsets;
};

/// The arguments of one call. The members that the collective does not have (rondo/collectives.h)
/// are ignored.
struct CollectiveCall {
  /// The block tables of a v-form, for the buffers that the call uses on this rank. Must be empty
  /// for a buffer that it does not use. A buffer with a single block has a table of one entry,
  /// whose count is CollectiveCall::count and whose offset is 0.
  struct Tables {
    Blocks input, output;
  };

  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0; ///< elements of one block; in v-forms of the rank's single block
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;                   ///< Send and Recv: the peer
  bool sending = false;           ///< Send (true) or Recv (false)
  const Tables* layout = nullptr; ///< only in v-forms; not owned, valid while the call is made
};

} // namespace rondo
