// One step of the host engine: all its inputs there, room on all its channels, one pass, sent.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/float_environment.h"
#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

/// Elements of the block in which a scaled input is combined: fits the first-level cache.
constexpr std::size_t kScaleBlock = 512;

/// Bodies from here on may be lent, or withdrawn.
constexpr std::size_t kLarge = transport::SlotRing::kInlineBytes + 1;

void copyTo(std::span<void* const> outs, const void* from, std::size_t bytes) {
  for (void* out : outs)
    if (out != from) std::memcpy(out, from, bytes);
}

} // namespace

std::byte* HostEngine::at(const Run& run, const plan::PieceOffsets& piece, std::size_t segment,
                          std::size_t tile) const {
  const std::size_t offset = piece.offsets[segment];
  switch (piece.space) {
    case plan::Space::input:
      // Input is only ever read; one pointer type keeps the tables simple.
      return const_cast<std::byte*>(run.input) + tile * run.plan->tile_bytes + offset;
    case plan::Space::output: return run.output + tile * run.plan->tile_bytes + offset;
    case plan::Space::scratch:
    case plan::Space::window: break; // no plan of this engine has windows
  }
  return static_cast<std::byte*>(scratch_.data()) + offset;
}

void HostEngine::check(const Run& run, const BoundStep& step, const End& end,
                       const transport::MessageHeader& header) {
  if (header.signature == run.signature && header.bytes == step.bytes) return;
  if (header.signature != run.signature) throw ForeignCall(end.peer, header.signature, run);
  throw Error(ErrorCode::mismatch,
              "rank " + std::to_string(end.peer) + " sent a message of " +
                  std::to_string(header.bytes) + " bytes where " + std::to_string(step.bytes) +
                  " were due",
              end.peer);
}

/// attempt() of a BoundStep::small_copy, unscaled.
bool HostEngine::copySmall(Run& run, const BoundStep& step, std::size_t tile) {
  const BoundOperand& input = step.inputs[0];
  transport::SlotRing* const ring = input.wire ? input.wire->ring : nullptr;
  const transport::MessageHeader* const header = ring ? ring->readable() : nullptr;
  if (header) {
    check(run, step, *input.wire, *header);
  } else if (ring) {
    return false;
  }
  for (const End* end : step.sends)
    if (!end->ring->writable(step.bytes)) return false;
  if (!run.plan->loans.empty() && !reclaim(run, step, tile)) return false;
  const std::byte* const from = ring ? ring->readBody(step.bytes) : at(run, input.piece, 0, tile);
  if (step.has_output)
    if (std::byte* to = at(run, step.output, 0, tile); to != from)
      std::memcpy(to, from, step.bytes);
  for (const End* end : step.sends) {
    std::memcpy(end->ring->writeBody(step.bytes), from, step.bytes);
    end->ring->publish({run.signature, step.bytes});
  }
  if (ring) ring->release();
  return true;
}

/// Does the step if everything it needs is there; false, with nothing done, if not.
bool HostEngine::attempt(Run& run, const BoundStep& step, std::size_t tile) {
  if (step.small_copy && !run.scaled()) return copySmall(run, step, tile);
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || !input.wire->mapped()) continue;
    const transport::MessageHeader* header = input.wire->ring->readable();
    if (!header) return false;
    check(run, step, *input.wire, *header);
    if (step.bytes < kLarge) input.wire->body = input.wire->ring->readBody(step.bytes);
  }
  for (End* end : step.sends)
    if (end->mapped() && !end->ring->writable(step.bytes)) return false;
  if (step.carries ? !arrivalsComplete(run, step, tile)
                   : !run.plan->loans.empty() && !reclaim(run, step, tile))
    return false;
  if (step.bytes >= kLarge) {
    if (!takeBodies(step)) return false;
    for (End* end : step.sends) end->offer = loanFor(run, step, *end, tile);
  }

  if (!alreadyInPlace(run, step)) compute(run, step, tile);

  for (End* end : step.sends) {
    if (!end->mapped()) continue;
    const transport::MessageHeader header{run.signature, step.bytes};
    if (end->offer) {
      const std::byte* data = at(run, *sourceOf(run, step), 0, tile);
      note(*run.plan, {end, end->ring->lend(header, *end->offer), data, step.bytes});
      end->offer.reset();
    } else {
      end->ring->publish(header);
    }
  }
  if (step.carries) sendCarriers(run, step, tile);
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

/// Whether what the step moves is where it belongs: its carriers send it from where it was, or the
/// one that received it has put it there.
bool HostEngine::alreadyInPlace(const Run& run, const BoundStep& step) {
  if (!step.carriers_only_move || run.scaled()) return false;
  const End* const from = step.inputs[0].wire;
  return !from || !from->staged;
}

void HostEngine::compute(Run& run, const BoundStep& step, std::size_t tile) {
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const plan::Segment& segment = step.segments[s];
    if (segment.count == 0) continue;
    const void** in = ins_.data();
    for (const BoundOperand& input : step.inputs) {
      if (!input.wire) {
        *in++ = at(run, input.piece, s, tile);
      } else if (input.wire->mapped()) {
        *in++ = input.wire->body + segment.packed;
      } else if (input.wire->staged) {
        *in++ = static_cast<std::byte*>(input.wire->staging.data()) + segment.packed;
      } else {
        *in++ = at(run, step.output, s, tile);
      }
    }
    void** out = outs_.data();
    if (step.has_output) *out++ = at(run, step.output, s, tile);
    for (End* end : step.sends) {
      if (end->mapped()) {
        if (!end->offer) *out++ = end->ring->writeBody(step.bytes) + segment.packed;
      } else if (!sourceOf(run, step)) {
        *out++ = stagingOf(*end) + segment.packed;
      }
    }
    const Operands operands{ins_.data(), static_cast<std::size_t>(in - ins_.data()), outs_.data(),
                            static_cast<std::size_t>(out - outs_.data())};
    if (operands.out_count == 0) continue; // a carrier sends from where the value already stands
    const std::size_t parts =
        crew_ ? std::min(crew_->size(),
                         segment.count * sizeOf(run.plan->shape.type) / Crew::kLeastPart)
              : 1;
    if (parts > 1) {
      combineTogether(run, step, operands, segment.count, parts);
    } else {
      combine(run, step, operands, segment.count);
    }
  }
}

/// Where the value of a step stands in memory anyway; null: only in what is sent. Then a carrier
/// needs it in the channel's staging memory.
const plan::PieceOffsets* HostEngine::sourceOf(const Run& run, const BoundStep& step) {
  if (step.has_output) return &step.output;
  const bool unchanged =
      step.inputs.size() == 1 && !step.inputs[0].wire && !(run.scaled() && step.raw_input >= 0);
  return unchanged ? &step.inputs[0].piece : nullptr;
}

/// As combine(), each part by a thread of the crew.
void HostEngine::combineTogether(const Run& run, const BoundStep& step, const Operands& operands,
                                 std::size_t count, std::size_t parts) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  const std::size_t grain = 64 / element;
  const auto beginOf = [&](std::size_t part) {
    return part == parts ? count : count / grain * part / parts * grain;
  };
  // All that may throw is done before the others begin.
  parts_.resize(std::max(parts_.size(), parts));
  for (std::size_t part = 0; part < parts; ++part) {
    auto& [ins, outs] = parts_[part];
    ins.assign(operands.ins, operands.ins + operands.in_count);
    outs.assign(operands.outs, operands.outs + operands.out_count);
    const std::size_t offset = beginOf(part) * element;
    for (const void*& in : ins) in = static_cast<const std::byte*>(in) + offset;
    for (void*& out : outs) out = static_cast<std::byte*>(out) + offset;
  }
  auto job = [&](std::size_t part) {
    if (part >= parts) return;
    auto& [ins, outs] = parts_[part];
    combine(run, step, {ins.data(), ins.size(), outs.data(), outs.size()},
            beginOf(part + 1) - beginOf(part));
  };
  crew_->run(job);
}

namespace {

/// As HostEngine::combine() of a step with a raw input that is scaled. Apart from the others, which
/// need no memory on the stack.
[[gnu::noinline]] void combineScaled(const Run& run, const BoundStep& step, const auto& operands,
                                     std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const auto [ins, in_count, outs, out_count] = operands;
  const std::size_t element = sizeOf(plan.shape.type);
  if (in_count == 1) {
    plan.scale(outs[0], ins[0], count, run.scaling.factor);
    return copyTo({outs, out_count}, outs[0], count * element);
  }
  alignas(64) std::byte block[kScaleBlock * 8];
  const auto raw = static_cast<std::size_t>(step.raw_input);
  const auto* unscaled = static_cast<const std::byte*>(ins[raw]);
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = std::min(kScaleBlock, count - done);
    plan.scale(block, unscaled + done * element, part, run.scaling.factor);
    ins[raw] = block;
    plan.reduce(outs, out_count, ins, in_count, part);
    done += part;
    for (std::size_t i = 0; i < in_count; ++i)
      ins[i] = static_cast<const std::byte*>(ins[i]) + part * element;
    for (std::size_t i = 0; i < out_count; ++i)
      outs[i] = static_cast<std::byte*>(outs[i]) + part * element;
  }
}

} // namespace

/// outs = combination of ins; the raw input, if any, is scaled first. Changes the pointers.
void HostEngine::combine(const Run& run, const BoundStep& step, const Operands& operands,
                         std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const auto [ins, in_count, outs, out_count] = operands;
  const bool scaled = run.scaled() && step.raw_input >= 0;
  if (in_count == 1 && !scaled) {
    const std::size_t bytes = count * sizeOf(plan.shape.type);
    if (!step.inputs[0].wire || !step.has_output || !plan.past_caches)
      return copyTo({outs, out_count}, ins[0], bytes);
    if (outs[0] != ins[0]) kernels::copyPastCaches(outs[0], ins[0], bytes);
    return copyTo({outs + 1, out_count - 1}, ins[0], bytes);
  }

  // Here, and not around a call: each thread of a crew has an environment of its own, and what only
  // moves data need not look at it.
  const base::FloatEnvironment same_on_all_ranks;
  if (scaled) return combineScaled(run, step, operands, count);
  plan.reduce(outs, out_count, ins, in_count, count);
}

} // namespace rondo::engine
