// Checks of arriving messages: they belong to the step that receives them, and with
// Options::checksum they are intact.
//
// The sender computes the checksum of what it sends, the receiver of what it got, before the step
// uses it. Messages in slots and loans are checked where they are, without a copy.
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

/// Returns the checksum of the value that the step has left at `source`, see sourceOf().
std::uint32_t checksumOf(const Run& run, const BoundStep& step, const plan::PieceOffsets& source,
                         std::size_t tile);

/// Compares the messages in shared memory that the step is about to use. Throws Error(transport).
void requireIntactBodies(const Run& run, const BoundStep& step);

struct Checksums {
  std::uint32_t sent = 0, found = 0;
};

/// Compares the checksums of a message from this channel. Throws Error(transport).
void requireIntact(const Checksums& sums, const Run& run, const BoundStep& step, const End& end);

} // namespace rondo::engine
