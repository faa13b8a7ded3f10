// The blocks of a v-form call.
#pragma once

#include "plan/tiles.h"

namespace rondo::comm {

/// Of the buffers that the call uses on this rank; the table of the other one is empty.
struct Layout {
  plan::BlockTable input, output;
};

} // namespace rondo::comm
