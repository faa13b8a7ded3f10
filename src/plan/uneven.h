// Decides which plans serve blocks of different sizes, the v-forms.
#pragma once

#include <span>

#include "plan/plan.h"

namespace rondo::plan {

/// Whether the plans of all ranks still do their collective when every block has its own size,
/// which only its sender and receiver know. Every step must move or reduce whole single blocks of
/// one size, no block may go through scratch, and each message must have the size that its receiver
/// expects. Sizes are identified by the rank that a block belongs to (for alltoall: by sender and
/// receiver).
bool servesUneven(std::span<const RankPlan> plans);

} // namespace rondo::plan
