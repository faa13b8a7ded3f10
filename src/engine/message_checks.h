// Checks of arriving messages: they belong to the step that receives them, and with
// Options::checksum they are intact.
//
// The sender computes the checksum of what it sends, the receiver of what it got, while the step
// uses it. The step sends its result, and releases the messages, only if all of them are intact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

[[noreturn]] void failUnexpected(const Run& run, const BoundStep& step, const End& end,
                                 const transport::MessageHeader& header);

/// Throws ForeignCall or Error(mismatch) if the header of the next message of a channel does not
/// fit the step.
inline void requireExpected(const Run& run, const BoundStep& step, const End& end,
                            const transport::MessageHeader& header) {
  if (header.signature != run.signature || header.bytes != step.bytes) [[unlikely]]
    failUnexpected(run, step, end, header);
}

/// Compares the checksums of the messages that the step has received: End::found with that of the
/// sender. Throws Error(transport).
void requireIntact(const Run& run, const BoundStep& step);

} // namespace rondo::engine
