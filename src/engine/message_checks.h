// Checks of arriving messages: they belong to the step that receives them, and with
// Options::checksum they are intact.
//
// The receiving step computes the checksums while it uses the messages. Only if all are right does
// it send its result and release the messages.
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

/// Compares the checksums of the messages that the step has received: End::found_checksum with that
/// of the sender. Throws Error(transport).
void requireIntact(const Run& run, const BoundStep& step);

} // namespace rondo::engine
