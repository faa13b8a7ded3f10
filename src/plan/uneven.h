// Plans that serve blocks of different sizes: the v-forms.
#pragma once

#include <span>

#include "plan/plan.h"

namespace rondo::plan {

/// Whether the plans of all ranks still do their collective when every block has a size of its own,
/// which only the ranks know that send or receive it: every step moves or reduces whole single
/// blocks of one size, none waits in scratch, and every message is what its receiver takes it for.
/// Sizes are told apart by whom a block belongs to (for alltoall: sender and receiver).
bool servesUneven(std::span<const RankPlan> plans);

} // namespace rondo::plan
