// A collective as a call of the plan kernel, with the inputs and results of collective_case.h.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/plan/world.h"
#include "support/collective_case.h"

namespace rondo::test {

/// Do not use it inside World::run(): buffers belong to the call.
Call callOf(const plan::Algorithm& algorithm, const CollectiveCase& one, int ranks,
            int parameter = 0);

} // namespace rondo::test
