// The bodies of the messages that a step receives on rings: finds them, or copies them, alone or
// together with the sender.
#include "engine/bodies.h"

#include <sched.h>

#include "base/copy.h"
#include "base/log.h"
#include "engine/step_memory.h"
#include "kernels/reduce.h"

namespace rondo::engine {

namespace {

/// Whether the step only stores one message, in consecutive memory.
bool onlyStores(const BoundStep& step) {
  return step.inputs.size() == 1 && step.has_output && step.segments.size() == 1;
}

/// Copies to `to` this end's parts of a body that both ends copy. Returns whether the body is
/// complete. If it cannot be read, refuses it.
bool copyParts(End& end, std::byte* to, std::size_t bytes) {
  using Parts = transport::SlotRing::Parts;
  transport::SlotRing& ring = *end.ring;
  const transport::Loan* const lent = ring.unmapped();
  if (!lent) return false; // the sender gave up waiting for this rank
  const transport::Loan& loan = *lent;
  while (const auto part = ring.nextPart(bytes))
    if (!end.loans->read(loan, part->offset, to + part->offset, part->bytes)) ring.failPart();
  const Parts parts = ring.parts();
  if (parts == Parts::pending) return false;
  if (parts == Parts::copied) return true;
  if (end.loans->read(loan, 0, to, bytes)) return ring.unmapped() != nullptr;
  ring.refuse();
  return false;
}

/// Gives the sender the destinations of the step's next messages, too, so that it need not wait for
/// this rank.
void shareLater(const Run& run, const BoundStep& step, const End& end, std::size_t tile) {
  for (std::size_t later = 1; later <= transport::kShareAhead && tile + later + 1 < step.tiles;
       ++later)
    end.ring->shareLater(later, addressOf(run, step.output, 0, tile + later),
                         [&](const transport::Loan& loan) { return end.loans->shared(loan); });
}

/// Sets end.body for the step's message of this channel. Returns and throws as takeBodies().
bool takeBody(const Run& run, const BoundStep& step, End& end, std::size_t tile) {
  if (onlyStores(step) && end.ring->early()) {
    std::byte* const to = addressOf(run, step.output, 0, tile);
    end.body = to;
    return end.ring->copyWritten(to, step.bytes,
                                 step.past_caches ? kernels::copyPastCaches : base::copyBytes);
  }
  std::byte* shared = end.ring->sharedTo();
  if (!shared) {
    end.body = end.ring->readBody(step.bytes, end.loans);
    if (end.body) return true;
    const transport::Loan* const loan = end.ring->unmapped();
    if (!loan) return false;
    std::byte* const to =
        onlyStores(step) ? addressOf(run, step.output, 0, tile) : end.staging.reserve(step.bytes);
    if (run.plan->use != transport::Use::one_way || !onlyStores(step) ||
        !end.loans->shared(*loan)) {
      end.body = to;
      // If the sender has given up waiting meanwhile, it may have overwritten the memory.
      if (end.loans->read(*loan, 0, to, step.bytes)) return end.ring->unmapped() != nullptr;
      end.ring->refuse();
      return false;
    }
    end.ring->share(to);
    shared = to;
  }
  end.body = shared;
  if (step.shares_later) shareLater(run, step, end, tile);
  return copyParts(end, shared, step.bytes);
}

} // namespace

bool takeBodies(const Run& run, const BoundStep& step, std::size_t tile) {
  std::size_t taken = 0;
  const auto giveBack = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      if (End* end = step.inputs[i].wire; end && end->mapped()) end->ring->giveBack();
  };
  try {
    for (; taken < step.inputs.size(); ++taken)
      if (End* end = step.inputs[taken].wire; end && end->mapped())
        if (!takeBody(run, step, *end, tile)) break;
  } catch (...) {
    giveBack(taken + 1); // with the message whose body could not be found
    throw;
  }
  if (taken == step.inputs.size()) return true;
  giveBack(taken);
  return false;
}

/// A copying thread never blocks, so the deadline passes only if that thread is stopped (SIGSTOP).
void giveBodiesBack(const BoundPlan& plan, base::Clock::time_point deadline) {
  for (const End* end : plan.ends) {
    if (!end->mapped() || end->sends || !end->loans) continue;
    while (!end->ring->giveAllBack() && !end->loans->peerEnded()) {
      if (base::Clock::now() >= deadline) {
        base::log(LogLevel::warn, "rank ", end->peer,
                  " has not finished a copy into this rank's buffers (is it stopped?): it may "
                  "still write there when it continues");
        break;
      }
      sched_yield();
    }
  }
}

} // namespace rondo::engine
