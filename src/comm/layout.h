// The blocks of a v-form call.
#pragma once

#include "engine/block_table.h"

namespace rondo::comm {

/// Of the buffers that the call uses on this rank; the table of the other one is empty.
struct Layout {
  engine::BlockTable input, output;
};

} // namespace rondo::comm
