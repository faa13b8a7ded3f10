// One step of the host engine: all its inputs there, room on all its channels, one pass, sent.
#include <algorithm>
#include <cstring>
#include <span>

#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

/// Elements of the block in which a scaled input is combined: fits the first-level cache.
constexpr std::size_t kScaleBlock = 512;

void check(const Run& run, const BoundStep& step, const End& end,
           const transport::MessageHeader& header) {
  if (header.signature != run.signature) throw ForeignCall(end.peer, header.signature, run);
  if (header.bytes != step.bytes)
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(end.peer) + " sent a message of " +
                    std::to_string(header.bytes) + " bytes where " + std::to_string(step.bytes) +
                    " were due",
                end.peer);
}

void copyTo(std::span<void* const> outs, const void* from, std::size_t bytes) {
  for (void* out : outs)
    if (out != from) std::memcpy(out, from, bytes);
}

} // namespace

std::byte* HostEngine::at(const Run& run, const BoundPiece& piece, std::size_t segment,
                          std::size_t tile) const {
  const std::size_t offset = piece.offsets[segment];
  switch (piece.space) {
    case plan::Space::input:
      // Input is only ever read; one pointer type keeps the tables simple.
      return const_cast<std::byte*>(run.input) + tile * run.plan->tile_bytes + offset;
    case plan::Space::output: return run.output + tile * run.plan->tile_bytes + offset;
    case plan::Space::scratch: break;
  }
  return static_cast<std::byte*>(scratch_.data()) + offset;
}

/// Does the step if everything it needs is there; false, with nothing done, if not.
bool HostEngine::attempt(Run& run, const BoundStep& step, std::size_t tile) {
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || !input.wire->mapped()) continue;
    const transport::MessageHeader* header = input.wire->ring->readable();
    if (!header) return false;
    check(run, step, *input.wire, *header);
  }
  for (End* end : step.sends)
    if (end->mapped() && !end->ring->writable(step.bytes)) return false;
  if (step.streaming ? !arrivalsComplete(run, step, tile)
                     : !run.plan->loans.empty() && !reclaim(run, step, tile))
    return false;
  if (!takeBodies(step)) return false;

  for (End* end : step.sends) end->offer = loanFor(run, step, *end, tile);

  compute(run, step, tile);

  for (End* end : step.sends) {
    if (!end->mapped()) continue;
    const transport::MessageHeader header{run.signature, step.bytes};
    if (end->offer) {
      const std::byte* data = at(run, *sourceOf(run, step), 0, tile);
      note(*run.plan, {end, end->ring->lend(header, *end->offer), data, step.bytes});
    } else {
      end->ring->publish(header);
    }
  }
  if (step.streaming) sendStreams(run, step, tile);
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire) continue;
    if (input.wire->mapped()) {
      input.wire->ring->release();
    } else {
      input.wire->arrival = End::Arrival::none;
    }
  }
  return true;
}

/// The stream part of attempt(): messages received, senders with room, output free to be written.
bool HostEngine::arrivalsComplete(Run& run, const BoundStep& step, std::size_t tile) {
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

/// Receives the next message of a stream; straight to its place when the step only moves it and no
/// pending send still reads that place, else to the staging buffer. Staging keeps two ranks that
/// swap buffers from waiting for each other.
bool HostEngine::arrive(Run& run, const BoundStep& step, End& end, std::size_t tile) {
  if (end.arrival == End::Arrival::complete) return true;
  const transport::MessageHeader* header = end.receiver->peek();
  if (!header) return false;
  if (end.arrival == End::Arrival::none) {
    check(run, step, end, *header);
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
      arriving_.push_back(
          {at(run, step.output, s, tile), step.segments[s].count * sizeOf(run.plan->shape.type)});
  }
  if (!end.receiver->receive(arriving_)) return false;
  end.arrival = End::Arrival::complete;
  return true;
}

/// Whether no peer and no pending send of this run reads what the step writes. Pumps those that do.
bool HostEngine::mayOverwrite(Run& run, const BoundStep& step, std::size_t tile) {
  if (!step.has_output) return true;
  if (!run.plan->loans.empty() && !reclaim(run, step, tile)) return false;
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (End* end : run.plan->streams_out) {
    if (end->sender->pending() == 0) continue;
    end->sender->progress();
    for (std::size_t s = 0; s < step.segments.size(); ++s)
      if (end->sender->reads(at(run, step.output, s, tile), step.segments[s].count * element))
        return false;
  }
  return true;
}

void HostEngine::compute(Run& run, const BoundStep& step, std::size_t tile) {
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const Segment& segment = step.segments[s];
    if (segment.count == 0) continue;
    ins_.clear();
    outs_.clear();
    for (const BoundOperand& input : step.inputs) {
      if (!input.wire) {
        ins_.push_back(at(run, input.piece, s, tile));
      } else if (input.wire->mapped()) {
        ins_.push_back(input.wire->body + segment.packed);
      } else if (input.wire->staged) {
        ins_.push_back(static_cast<std::byte*>(input.wire->staging.data()) + segment.packed);
      } else {
        ins_.push_back(at(run, step.output, s, tile));
      }
    }
    if (step.has_output) outs_.push_back(at(run, step.output, s, tile));
    for (End* end : step.sends) {
      if (end->mapped()) {
        if (!end->offer) outs_.push_back(end->ring->writeBody(step.bytes) + segment.packed);
      } else if (!sourceOf(run, step)) {
        outs_.push_back(stagingOf(*end) + segment.packed);
      }
    }
    combine(run, step, segment.count);
  }
}

/// Where the value of a step stands in memory anyway; null: only in what is sent. Then a stream needs
/// it in the channel's staging memory.
const BoundPiece* HostEngine::sourceOf(const Run& run, const BoundStep& step) {
  if (step.has_output) return &step.output;
  const bool as_it_is =
      step.inputs.size() == 1 && !step.inputs[0].wire && !(run.scaled() && step.raw_input >= 0);
  return as_it_is ? &step.inputs[0].piece : nullptr;
}

std::byte* HostEngine::stagingOf(End& end) const {
  const std::size_t slot = fabric_.messageBytes();
  end.staging.reserve(slot * static_cast<std::size_t>(end.port->depth));
  return static_cast<std::byte*>(end.staging.data()) + end.next_staging * slot;
}

/// outs_ = combination of ins_, by the whole crew where that pays.
void HostEngine::combine(const Run& run, const BoundStep& step, std::size_t count) {
  if (outs_.empty()) return; // a stream sends from where the value already stands
  const std::size_t element = sizeOf(run.plan->shape.type);
  const std::size_t parts =
      crew_ ? std::min(crew_->size(), count * element / Crew::kLeastPart) : std::size_t{1};
  if (parts <= 1) return combine(run, step, ins_, outs_, count);
  const std::size_t grain = 64 / element;
  const auto beginOf = [&](std::size_t part) {
    return part == parts ? count : count / grain * part / parts * grain;
  };
  // All that may throw is done before the others begin.
  parts_.resize(std::max(parts_.size(), parts));
  for (std::size_t part = 0; part < parts; ++part) {
    parts_[part] = {ins_, outs_};
    const std::size_t offset = beginOf(part) * element;
    for (const void*& in : parts_[part].ins) in = static_cast<const std::byte*>(in) + offset;
    for (void*& out : parts_[part].outs) out = static_cast<std::byte*>(out) + offset;
  }
  auto job = [&](std::size_t part) {
    if (part < parts)
      combine(run, step, parts_[part].ins, parts_[part].outs, beginOf(part + 1) - beginOf(part));
  };
  crew_->run(job);
}

/// outs = combination of ins; the raw input, if any, is scaled first. Changes the pointers.
void HostEngine::combine(const Run& run, const BoundStep& step, std::vector<const void*>& ins,
                         std::vector<void*>& outs, std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const std::size_t element = sizeOf(plan.shape.type);
  const bool scaled = run.scaled() && step.raw_input >= 0;
  if (ins.size() == 1) {
    if (step.inputs[0].wire && step.has_output && plan.past_caches) {
      if (outs[0] != ins[0]) kernels::copyPastCaches(outs[0], ins[0], count * element);
      return copyTo(std::span(outs).subspan(1), ins[0], count * element);
    }
    if (!scaled) return copyTo(outs, ins[0], count * element);
    plan.scale(outs[0], ins[0], count, run.factor);
    return copyTo(outs, outs[0], count * element);
  }
  if (!scaled) return plan.reduce(outs.data(), outs.size(), ins.data(), ins.size(), count);

  alignas(64) std::byte block[kScaleBlock * 8];
  const auto raw = static_cast<std::size_t>(step.raw_input);
  const auto* unscaled = static_cast<const std::byte*>(ins[raw]);
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = std::min(kScaleBlock, count - done);
    plan.scale(block, unscaled + done * element, part, run.factor);
    ins[raw] = block;
    plan.reduce(outs.data(), outs.size(), ins.data(), ins.size(), part);
    done += part;
    for (const void*& in : ins) in = static_cast<const std::byte*>(in) + part * element;
    for (void*& out : outs) out = static_cast<std::byte*>(out) + part * element;
  }
}

void HostEngine::sendStreams(Run& run, const BoundStep& step, std::size_t tile) {
  const BoundPiece* source = sourceOf(run, step);
  for (End* end : step.sends) {
    if (end->mapped()) continue;
    pieces_.clear();
    if (!source) {
      pieces_.push_back({stagingOf(*end), step.bytes});
      if (++end->next_staging == static_cast<std::size_t>(end->port->depth)) end->next_staging = 0;
    } else {
      for (std::size_t s = 0; s < step.segments.size(); ++s)
        pieces_.push_back(
            {at(run, *source, s, tile), step.segments[s].count * sizeOf(run.plan->shape.type)});
    }
    end->sender->start({run.signature, step.bytes}, pieces_);
    end->sender->progress();
  }
}

} // namespace rondo::engine
