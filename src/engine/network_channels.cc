// The part of a step over network channels, in the host engine: receiving and sending.
#include "engine/network_channels.h"

#include "engine/message_checks.h"
#include "engine/step_memory.h"

namespace rondo::engine {

namespace {

/// Whether no peer and no pending send of this run reads the memory that the step writes. Makes
/// progress on such sends.
bool mayOverwrite(const Run& run, const BoundStep& step, std::size_t tile) {
  if (!step.has_output) return true;
  if (!run.plan->loans.empty() && !reclaimOutput(run, step, tile)) return false;
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (End* end : run.plan->network_out) {
    if (end->sender->pending() == 0) continue;
    end->sender->progress();
    for (std::size_t s = 0; s < step.segments.size(); ++s)
      if (end->sender->reads(addressOf(run, step.output, s, tile),
                             step.segments[s].count * element))
        return false;
  }
  return true;
}

} // namespace

bool NetworkChannels::ready(const Run& run, const BoundStep& step, std::size_t tile) {
  bool ready = true;
  bool direct = false;
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || input.wire->mapped()) continue;
    ready &= arrive(run, step, *input.wire, tile);
    direct |= !input.wire->staged;
  }
  for (End* end : step.sends) {
    if (end->mapped()) continue;
    const auto depth = static_cast<std::size_t>(end->port->depth);
    if (end->sender->pending() >= depth) moved_ |= end->sender->progress();
    ready &= end->sender->pending() < depth;
  }
  return ready && (direct || mayOverwrite(run, step, tile));
}

/// Receives the next message of a network channel. It goes directly to its destination if the step
/// only moves it and no pending send reads that destination; otherwise it goes to the staging
/// buffer. Without staging, two ranks that swap buffers would wait for each other.
bool NetworkChannels::arrive(const Run& run, const BoundStep& step, End& end, std::size_t tile) {
  if (end.arrival == End::Arrival::complete) return true;
  const transport::MessageHeader* header = end.receiver->peek();
  if (!header) return false;
  if (end.arrival == End::Arrival::none) {
    requireExpected(run, step, end, *header);
    end.staged = step.inputs.size() > 1 || !step.has_output || !mayOverwrite(run, step, tile);
    if (end.staged) end.staging.reserve(step.bytes);
    end.arrival = end.staged ? End::Arrival::staged : End::Arrival::direct;
    moved_ = true;
  }
  arriving_.clear();
  if (end.staged) {
    arriving_.push_back({end.staging.data(), step.bytes});
  } else {
    for (std::size_t s = 0; s < step.segments.size(); ++s)
      arriving_.push_back({addressOf(run, step.output, s, tile),
                           step.segments[s].count * sizeOf(run.plan->shape.type)});
  }
  end.sent_checksum = header->checksum; // the header is gone when all has arrived
  if (!end.receiver->receive(arriving_)) return false;
  end.arrival = End::Arrival::complete;
  return true;
}

std::byte* NetworkChannels::staging(End& end) const {
  const std::size_t slot = fabric_.messageBytes();
  end.staging.reserve(slot * static_cast<std::size_t>(end.port->depth));
  return static_cast<std::byte*>(end.staging.data()) + end.next_staging * slot;
}

void NetworkChannels::send(const Run& run, const BoundStep& step, std::size_t tile,
                           std::uint32_t checksum) {
  const plan::PieceOffsets* source = sourceOf(run, step);
  for (End* end : step.sends) {
    if (end->mapped()) continue;
    pieces_.clear();
    if (!source) {
      pieces_.push_back({staging(*end), step.bytes});
      if (++end->next_staging == static_cast<std::size_t>(end->port->depth)) end->next_staging = 0;
    } else {
      for (std::size_t s = 0; s < step.segments.size(); ++s)
        pieces_.push_back({addressOf(run, *source, s, tile),
                           step.segments[s].count * sizeOf(run.plan->shape.type)});
    }
    end->sender->start({run.signature, step.bytes, checksum}, pieces_);
  }
}

bool NetworkChannels::flush(const BoundPlan& plan) {
  bool flushed = true;
  for (End* end : plan.network_out) {
    if (end->sender->pending() == 0) continue;
    moved_ |= end->sender->progress();
    flushed &= end->sender->pending() == 0;
  }
  return flushed;
}

} // namespace rondo::engine
