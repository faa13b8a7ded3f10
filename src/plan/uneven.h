// Plans that serve blocks of different sizes: the v-forms.
#pragma once

#include "plan/plan.h"

namespace rondo::plan {

/// Whether the algorithm still does its collective when every block has a size of its own, which
/// only the ranks know that send or receive it: every step moves or reduces whole single blocks of
/// one size, none waits in scratch, and every message is what its receiver takes it for. Sizes are
/// told apart by whom a block belongs to (for alltoall: sender and receiver). Builds all ranks'
/// plans.
bool servesUneven(const Algorithm& algorithm, const Spec& spec);

} // namespace rondo::plan
