// The checksums of the host engine's messages: Options::checksum.
//
// The sender sums what it sends, after the step has computed it. The receiver sums what it got,
// before the step uses it. What passes through shared memory or is lent in place is summed there.
#include <cstdio>
#include <string>

#include "base/crc32c.h"
#include "engine/host_engine.h"

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

[[noreturn]] void fail(std::uint32_t sent, std::uint32_t found, const Run& run,
                       const BoundStep& step, const End& end) {
  char sums[64];
  std::snprintf(sums, sizeof sums, "its CRC32C is %08x instead of %08x", found, sent);
  throw Error(ErrorCode::transport,
              nameOf(*run.plan, step) + ": a message of " + std::to_string(step.bytes) +
                  " bytes from rank " + std::to_string(end.peer) + " was damaged on its way (" +
                  sums + ")",
              end.peer);
}

} // namespace

/// Of the message that the step sends, which is the same on all its channels.
std::uint32_t HostEngine::checksumOf(const Run& run, const BoundStep& step, std::size_t tile) {
  const plan::PieceOffsets* source = sourceOf(run, step);
  if (source) {
    std::uint32_t sum = 0;
    const std::size_t element = sizeOf(run.plan->shape.type);
    for (std::size_t s = 0; s < step.segments.size(); ++s)
      sum = base::crc32c(sum, at(run, *source, s, tile), step.segments[s].count * element);
    return sum;
  }
  End& end = *step.sends.front();
  const std::byte* body = end.mapped() ? end.ring->writeBody(step.bytes) : stagingOf(end);
  return base::crc32c(0, body, step.bytes);
}

/// Compares the messages in shared memory that the step is about to use. Throws Error(transport).
void HostEngine::requireBodies(const Run& run, const BoundStep& step) const {
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || !input.wire->mapped()) continue;
    const End& end = *input.wire;
    const std::uint32_t sent = end.ring->readable()->checksum;
    const std::uint32_t found = base::crc32c(0, end.body, step.bytes);
    if (sent == found) continue;
    // The lenders do not have to wait for this rank.
    for (const BoundOperand& other : step.inputs)
      if (other.wire && other.wire->mapped()) other.wire->ring->giveBack();
    fail(sent, found, run, step, end);
  }
}

/// Compares the message that a carrier has received into `arriving_`. Throws Error(transport).
void HostEngine::requireArrived(const Run& run, const BoundStep& step, const End& end,
                                std::uint32_t sent) const {
  std::uint32_t sum = 0;
  for (const transport::MutableBytes& piece : arriving_)
    sum = base::crc32c(sum, piece.data, piece.size);
  if (sent != sum) fail(sent, sum, run, step, end);
}

} // namespace rondo::engine
