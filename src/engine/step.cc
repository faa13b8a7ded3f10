// One step of the host engine: checks that all inputs have arrived and all channels have room,
// computes, and sends.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/float_environment.h"
#include "engine/host_engine.h"

namespace rondo::engine {

namespace {

/// Elements of the block in which a scaled input is combined; it fits the first-level cache.
constexpr std::size_t kScaleBlock = 512;

/// Messages of this size and above may be lent, or withdrawn.
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
      // The input is only read; one pointer type keeps the tables simple.
      return const_cast<std::byte*>(run.input) + tile * run.plan->tile_bytes + offset;
    case plan::Space::output: return run.output + tile * run.plan->tile_bytes + offset;
    case plan::Space::scratch:
    case plan::Space::window: break; // plans of this engine have no windows
  }
  return static_cast<std::byte*>(scratch_.data()) + offset;
}

void HostEngine::check(const Run& run, const BoundStep& step, const End& end,
                       const transport::MessageHeader& header) {
  if (header.signature == run.signature && header.bytes == step.bytes) return;
  if (header.signature != run.signature) throw ForeignCall(end.peer, header.signature, run);
  throw Error(ErrorCode::mismatch,
              "rank " + std::to_string(end.peer) + " sent a message of " +
                  std::to_string(header.bytes) + " bytes, but " + std::to_string(step.bytes) +
                  " were expected",
              end.peer);
}

/// attempt() for a BoundStep::small_copy without scaling.
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

/// Does the step if all its inputs have arrived and all its channels have room. Otherwise returns
/// false and changes nothing that other steps can see.
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
  if (step.carries ? !carriersReady(run, step, tile)
                   : !run.plan->loans.empty() && !reclaim(run, step, tile))
    return false;
  if (step.bytes >= kLarge) {
    if (!takeBodies(run, step, tile)) return false;
    for (End* end : step.sends) end->offer = loanFor(run, step, *end, tile);
  }

  if (checksum_) [[unlikely]]
    requireBodies(run, step);
  if (!alreadyInPlace(run, step)) compute(run, step, tile);

  const std::uint32_t checksum = checksum_ && !step.sends.empty() ? checksumOf(run, step, tile) : 0;
  for (End* end : step.sends) {
    if (!end->mapped()) continue;
    const transport::MessageHeader header{run.signature, step.bytes, checksum};
    if (end->offer) {
      const std::byte* data = at(run, *sourceOf(run, step), 0, tile);
      note(*run.plan, {end, end->ring->lend(header, *end->offer), data, step.bytes});
      end->offer.reset();
    } else {
      end->ring->publish(header);
    }
  }
  if (step.carries) sendCarriers(run, step, tile, checksum);
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

/// Whether the step's data needs no copy: its carriers send it from where it is, or a carrier has
/// received it at its destination.
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
    if (operands.out_count == 0) continue; // a carrier sends the value from where it is
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

/// Where the value of a step is in memory; null: only in the sent messages. In that case a carrier
/// needs it in the channel's staging memory.
const plan::PieceOffsets* HostEngine::sourceOf(const Run& run, const BoundStep& step) {
  if (step.has_output) return &step.output;
  const bool unchanged =
      step.inputs.size() == 1 && !step.inputs[0].wire && !(run.scaled() && step.raw_input >= 0);
  return unchanged ? &step.inputs[0].piece : nullptr;
}

/// combine() with one part for each thread of the crew.
void HostEngine::combineTogether(const Run& run, const BoundStep& step, const Operands& operands,
                                 std::size_t count, std::size_t parts) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  const std::size_t grain = 64 / element;
  const auto beginOf = [&](std::size_t part) {
    return part == parts ? count : count / grain * part / parts * grain;
  };
  // Everything that may throw happens before the other threads start.
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

/// combine() for a step with a scaled raw input. A function of its own, because combine() without
/// scaling needs no block on the stack.
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

  // Set here, not around a call: each thread of a crew has its own environment, and calls that only
  // move data do not need it.
  const base::FloatEnvironment same_on_all_ranks;
  if (scaled) return combineScaled(run, step, operands, count);
  plan.reduce(outs, out_count, ins, in_count, count);
}

} // namespace rondo::engine
