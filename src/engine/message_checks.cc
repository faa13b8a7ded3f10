// Checks of arriving messages: checksums, and the errors.
#include "engine/message_checks.h"

#include <cstdio>
#include <string>

#include "base/crc32c.h"
#include "engine/step_memory.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// "lane 2 step 5" of the plan to which the step belongs.
std::string nameOf(const BoundPlan& plan, const BoundStep& step) {
  for (const auto* lanes : {&plan.full, &plan.last})
    for (std::size_t lane = 0; lane < lanes->size(); ++lane)
      for (std::size_t i = 0; i < (*lanes)[lane].size(); ++i)
        if (&(*lanes)[lane][i] == &step)
          return "lane " + std::to_string(lane) + " step " + std::to_string(i);
  return "a step";
}

} // namespace

void failUnexpected(const Run& run, const BoundStep& step, const End& end,
                    const transport::MessageHeader& header) {
  if (header.signature != run.signature) throw ForeignCall(end.peer, header.signature, run);
  throw Error(ErrorCode::mismatch,
              "rank " + std::to_string(end.peer) + " sent a message of " +
                  std::to_string(header.bytes) + " bytes, but " + std::to_string(step.bytes) +
                  " were expected",
              end.peer);
}

std::uint32_t checksumOf(const Run& run, const BoundStep& step, const plan::PieceOffsets& source,
                         std::size_t tile) {
  std::uint32_t sum = 0;
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (std::size_t s = 0; s < step.segments.size(); ++s)
    sum = base::crc32c(sum, addressOf(run, source, s, tile), step.segments[s].count * element);
  return sum;
}

void requireIntactBodies(const Run& run, const BoundStep& step) {
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || !input.wire->mapped()) continue;
    const End& end = *input.wire;
    const std::uint32_t sent = end.ring->readable()->checksum;
    const std::uint32_t found = base::crc32c(0, end.body, step.bytes);
    if (sent == found) continue;
    // The lenders do not have to wait for this rank.
    for (const BoundOperand& other : step.inputs)
      if (other.wire && other.wire->mapped()) other.wire->ring->giveBack();
    requireIntact({sent, found}, run, step, end);
  }
}

void requireIntact(const Checksums& sums, const Run& run, const BoundStep& step, const End& end) {
  if (sums.sent == sums.found) return;
  char text[64];
  std::snprintf(text, sizeof text, "its CRC32C is %08x instead of %08x", sums.found, sums.sent);
  throw Error(ErrorCode::transport,
              nameOf(*run.plan, step) + ": a message of " + std::to_string(step.bytes) +
                  " bytes from rank " + std::to_string(end.peer) + " was damaged on its way (" +
                  text + ")",
              end.peer);
}

} // namespace rondo::engine
