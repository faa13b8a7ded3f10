// The bodies of the messages that a step receives on rings: their addresses, or copies of bodies
// that are not mapped here.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

/// Sets End::body for all messages of more than SlotRing::kInlineBytes that the step receives on
/// rings. Call it when all of them are readable and the step may overwrite its output. A lent body
/// that is not mapped here is copied: to its destination if the step only stores it, otherwise to
/// the end's staging memory.
///
/// Returns false if a body is not complete yet: the sender is still copying a part of it, or has to
/// copy it to its slot. Then call it again. Also returns false if a message was withdrawn, because
/// the communicator is failing. If it returns false or throws, no message is taken, but parts of
/// the output may have been written. Throws the errors of Loans.
bool takeBodies(const Run& run, const BoundStep& step, std::size_t tile);

/// After the plan's run has failed: gives back the bodies that this rank has begun to read, because
/// their lenders wait for that. Prevents peers from beginning to copy another part of a body to
/// this rank's memory, and waits until the deadline for the parts that they are copying.
void giveBodiesBack(const BoundPlan& plan, base::Clock::time_point deadline);

} // namespace rondo::engine
