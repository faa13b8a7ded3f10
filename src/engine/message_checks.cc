// Checks of arriving messages: checksums, and the errors.
#include "engine/message_checks.h"

#include <cstdio>
#include <string>

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

[[noreturn]] void failDamaged(const Run& run, const BoundStep& step, const End& end,
                              std::uint32_t sent) {
  // Returns the loans, so that the senders need not wait for this rank.
  for (const BoundOperand& input : step.inputs)
    if (input.wire && input.wire->mapped()) input.wire->ring->giveBack();
  char text[64];
  std::snprintf(text, sizeof text, "its CRC32C is %08x instead of %08x", end.found_checksum, sent);
  throw Error(ErrorCode::transport,
              nameOf(*run.plan, step) + ": a message of " + std::to_string(step.bytes) +
                  " bytes from rank " + std::to_string(end.peer) + " was damaged on its way (" +
                  text + ")",
              end.peer);
}

} // namespace

void failUnexpected(const Run& run, const BoundStep& step, const End& end,
                    const transport::MessageHeader& header) {
  if (header.signature != run.signature) throw ForeignCall(end.peer, header.signature, run);
  throw Error(ErrorCode::mismatch,
              "rank " + std::to_string(end.peer) + " sent a message of " +
                  std::to_string(header.bytes) + " bytes to rank " + std::to_string(end.id.dst) +
                  ", which expected " + std::to_string(step.bytes) +
                  ": the two ranks pass different counts for this block",
              end.peer);
}

void requireIntact(const Run& run, const BoundStep& step) {
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire) continue;
    const End& end = *input.wire;
    const std::uint32_t sent = end.mapped() ? end.ring->readable()->checksum : end.sent_checksum;
    if (sent != end.found_checksum) failDamaged(run, step, end, sent);
  }
}

} // namespace rondo::engine
