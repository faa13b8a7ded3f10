// The bodies of a step's messages on rings: where they are, or a copy of those that are not mapped.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

/// Sets End::body for all messages of more than SlotRing::kInlineBytes that the step receives on
/// rings. All of them are readable, and the step may overwrite its output. A lent body that is not
/// mapped here is copied: to its destination if the step only moves it there, otherwise to the
/// end's staging memory.
///
/// False: call it again, because the sender is copying a part of a body or has to copy a body to
/// its slot; or a message was withdrawn, because the communicator is failing. If it returns false
/// or throws, no message is taken; parts of the output may have been written. Throws the errors of
/// Loans.
bool takeBodies(const Run& run, const BoundStep& step, std::size_t tile);

/// After a failure of the plan's run: waits until the deadline for peers that are copying parts of
/// bodies to this rank's memory. No peer begins to copy another part.
void endSharedBodies(const BoundPlan& plan, base::Clock::time_point deadline);

} // namespace rondo::engine
