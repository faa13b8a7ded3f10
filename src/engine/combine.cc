// The arithmetic of a step in the host engine: combines inputs, by one thread or several.
#include "engine/combine.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/copy.h"
#include "base/float_environment.h"
#include "kernels/reduce.h"

namespace rondo::engine {

namespace {

/// Elements of the block in which a scaled input is combined; it fits the first-level cache.
constexpr std::size_t kScaleBlock = 512;

void copyTo(std::span<void* const> outs, const void* from, std::size_t bytes) {
  for (void* out : outs)
    if (out != from) base::copyBytes(out, from, bytes);
}

/// combine() for a step with a scaled raw input. Changes the pointers, and restores them. A
/// function of its own, because combine() without scaling needs no block on the stack.
[[gnu::noinline]] void combineScaled(const Run& run, const BoundStep& step,
                                     const Operands& operands, std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const auto [ins, in_count, outs, out_count] = operands;
  const std::size_t element = sizeOf(plan.shape.type);
  if (in_count == 1) {
    plan.scale(outs[0], ins[0], count, run.scaling.factor);
    return copyTo({outs, out_count}, outs[0], count * element);
  }
  alignas(64) std::byte block[kScaleBlock * 8];
  const auto raw = static_cast<std::size_t>(step.raw_input);
  const void* const unscaled = ins[raw];
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = std::min(kScaleBlock, count - done);
    plan.scale(block, static_cast<const std::byte*>(unscaled) + done * element, part,
               run.scaling.factor);
    ins[raw] = block;
    plan.reduce(outs, out_count, ins, in_count, part);
    done += part;
    advance(operands, static_cast<std::ptrdiff_t>(part * element));
  }
  ins[raw] = static_cast<const std::byte*>(unscaled) + count * element;
  advance(operands, -static_cast<std::ptrdiff_t>(count * element));
}

/// Whether to call combineAndCopy() in place of reducing into the outputs. It may be faster if the
/// result also goes to slots. Also if the step's own output is the only one, because the step lends
/// this memory: peers read it in the call before, so their cores hold its lines. But not if it is
/// an input too: then this rank has just read these lines.
bool copiesResult(const BoundPlan& plan, const BoundStep& step, const Operands& operands) {
  if (!step.copies_result || !step.result_way.isFirst()) return false;
  const auto [ins, in_count, outs, out_count] = operands;
  if (!step.has_output || out_count > 1) return out_count > 0;
  return plan.of_output.end - plan.of_output.begin <= transport::kCopiedResult &&
         std::ranges::count(std::span(ins, in_count), outs[0]) == 0;
}

/// combine() without scaling for copiesResult(): in blocks, each into one place and from there to
/// the other outputs. This place is the step's own output if there are others, or else a block on
/// the stack.
[[gnu::noinline]] void combineAndCopy(const Run& run, const BoundStep& step,
                                      const Operands& operands, std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const auto [ins, in_count, outs, out_count] = operands;
  const std::size_t element = sizeOf(plan.shape.type), most = transport::kCopiedBlock / element;
  alignas(64) std::byte block[transport::kCopiedBlock];
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = std::min(most, count - done);
    void* result = step.has_output && out_count > 1 ? outs[0] : block;
    plan.reduce(&result, 1, ins, in_count, part);
    copyTo({outs, out_count}, result, part * element);
    done += part;
    advance(operands, static_cast<std::ptrdiff_t>(part * element));
  }
  advance(operands, -static_cast<std::ptrdiff_t>(count * element));
}

} // namespace

void advance(const Operands& operands, std::ptrdiff_t bytes) {
  for (std::size_t i = 0; i < operands.in_count; ++i)
    operands.ins[i] = static_cast<const std::byte*>(operands.ins[i]) + bytes;
  for (std::size_t i = 0; i < operands.out_count; ++i)
    operands.outs[i] = static_cast<std::byte*>(operands.outs[i]) + bytes;
}

void combine(const Run& run, const BoundStep& step, const Operands& operands, std::size_t count) {
  const BoundPlan& plan = *run.plan;
  const auto [ins, in_count, outs, out_count] = operands;
  const bool scaled = run.scaled() && step.raw_input >= 0;
  if (in_count == 1 && !scaled) {
    const std::size_t bytes = count * sizeOf(plan.shape.type);
    if (!step.past_caches) return copyTo({outs, out_count}, ins[0], bytes);
    if (outs[0] != ins[0]) kernels::copyPastCaches(outs[0], ins[0], bytes);
    return copyTo({outs + 1, out_count - 1}, ins[0], bytes);
  }

  // Set here, not around a call: each thread of a thread team has its own environment, and calls
  // that only move data do not need it.
  const base::FloatEnvironment same_on_all_ranks;
  if (scaled) return combineScaled(run, step, operands, count);
  if (copiesResult(plan, step, operands)) return combineAndCopy(run, step, operands, count);
  plan.reduce(outs, out_count, ins, in_count, count);
}

void Combiner::combine(const Run& run, const BoundStep& step, const Operands& operands,
                       std::size_t count) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  const std::size_t parts = std::min(thread_team_.size(), count * element / ThreadTeam::kLeastPart);
  if (parts <= 1) return engine::combine(run, step, operands, count);
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
    engine::combine(run, step, {ins.data(), ins.size(), outs.data(), outs.size()},
                    beginOf(part + 1) - beginOf(part));
  };
  thread_team_.run(job);
}

} // namespace rondo::engine
