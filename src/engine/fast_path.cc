// The fast path of small calls: their steps run without queues, lanes, tiles and loans.
#include "engine/fast_path.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/copy.h"
#include "base/float_environment.h"
#include "engine/message_checks.h"

namespace rondo::engine {

namespace {

/// Inputs and outputs of a step, at most.
constexpr std::size_t kMostOperands = 8;

/// Whether the end never lends a message of this size.
bool copies(const End& end, std::size_t bytes, transport::Use use) {
  return end.mapped() && (!end.loans || bytes < end.loans->worthFrom(use));
}

bool suits(const BoundPlan& plan, const BoundStep& step) {
  const auto inMemory = [](const plan::PieceOffsets& piece) {
    return piece.space == plan::Space::input || piece.space == plan::Space::output;
  };
  const auto input = [&](const BoundOperand& one) {
    return one.wire ? one.wire->mapped() : inMemory(one.piece);
  };
  const std::size_t outputs = step.sends.size() + (step.has_output ? 1 : 0);
  return step.tiles == 1 && step.after.empty() && step.bytes < kFastPathBytes &&
         !step.past_caches && (step.bytes == 0 || step.segments.size() == 1) &&
         !step.inputs.empty() && step.inputs.size() <= kMostOperands && outputs <= kMostOperands &&
         (step.inputs.size() == 1 || (outputs > 0 && step.bytes > 0)) &&
         (!step.has_output || inMemory(step.output)) && std::ranges::all_of(step.inputs, input) &&
         std::ranges::all_of(step.sends,
                             [&](const End* end) { return copies(*end, step.bytes, plan.use); });
}

FastStep::Place placeOf(const plan::PieceOffsets& piece) {
  return {piece.space == plan::Space::output, piece.offsets.empty() ? 0 : piece.offsets[0]};
}

FastStep::Source sourceOf(const BoundOperand& input) {
  if (input.wire) return {input.wire, input.wire->ring, {}};
  return {nullptr, nullptr, placeOf(input.piece)};
}

FastStep flat(const BoundStep& step) {
  FastStep made;
  made.step = &step;
  made.bytes = step.bytes;
  made.elements = step.segments.empty() ? 0 : step.segments[0].count;
  made.take_below = step.take_below;
  made.input = sourceOf(step.inputs[0]);
  for (std::size_t i = 1; i < step.inputs.size(); ++i)
    made.others.push_back(sourceOf(step.inputs[i]));
  made.has_output = step.has_output && step.bytes > 0;
  if (made.has_output) made.output = placeOf(step.output);
  for (const End* end : step.sends) made.sends.push_back(end->ring);
  return made;
}

/// memcpy, which for the commonest sizes needs no call.
inline void copyFew(void* to, const void* from, std::size_t bytes) {
  if (bytes == 8) std::memcpy(to, from, 8);
  else if (bytes == 4) std::memcpy(to, from, 4);
  else base::copyBytes(to, from, bytes);
}

inline std::byte* addressOf(const Run& run, const FastStep::Place& place) {
  // The input is only read; one pointer type keeps the steps simple.
  return (place.in_output ? run.output : const_cast<std::byte*>(run.input)) + place.offset;
}

/// Finds the data of an input. False if its message is not there yet.
inline bool find(const Run& run, const FastStep& step, const FastStep::Source& input,
                 const std::byte*& data) {
  if (!input.ring) {
    data = addressOf(run, input.place);
    return true;
  }
  const transport::MessageHeader* const header = input.ring->readable();
  if (!header) return false;
  requireExpected(run, *step.step, *input.wire, *header);
  data = input.ring->readBody(step.bytes);
  return data != nullptr;
}

inline bool haveRoom(const FastStep& step) {
  for (transport::SlotRing* ring : step.sends)
    if (!ring->writable(step.bytes)) return false;
  return true;
}

/// A step with one input. Peers get the data before the output.
inline bool copy(const Run& run, const FastStep& step) {
  const FastStep::Source& input = step.input;
  const std::byte* from = nullptr;
  if (!find(run, step, input, from) || !haveRoom(step)) return false;
  for (transport::SlotRing* ring : step.sends) {
    copyFew(ring->writeBody(step.bytes), from, step.bytes);
    ring->publish({run.signature, step.bytes});
  }
  if (step.has_output)
    if (std::byte* const to = addressOf(run, step.output); to != from)
      copyFew(to, from, step.bytes);
  if (input.ring) input.ring->release(step.take_below);
  return true;
}

/// A step with several inputs.
inline bool combine(const Run& run, const FastStep& step) {
  std::array<const void*, kMostOperands> ins;
  std::array<void*, kMostOperands> outs;
  std::size_t in_count = 0, out_count = 0;
  const std::byte* data = nullptr;
  if (!find(run, step, step.input, data)) return false;
  ins[in_count++] = data;
  for (const FastStep::Source& input : step.others) {
    if (!find(run, step, input, data)) return false;
    ins[in_count++] = data;
  }
  if (!haveRoom(step)) return false;
  if (step.has_output) outs[out_count++] = addressOf(run, step.output);
  for (transport::SlotRing* ring : step.sends) outs[out_count++] = ring->writeBody(step.bytes);
  {
    const base::FloatEnvironment same_on_all_ranks;
    run.plan->reduce(outs.data(), out_count, ins.data(), in_count, step.elements);
  }
  for (transport::SlotRing* ring : step.sends) ring->publish({run.signature, step.bytes});
  if (step.input.ring) step.input.ring->release(step.take_below);
  for (const FastStep::Source& input : step.others)
    if (input.ring) input.ring->release(step.take_below);
  return true;
}

} // namespace

void makeFastPath(BoundPlan& plan) {
  const bool suit =
      plan.tiles == 1 && plan.last.size() == 1 && plan.network_out.empty() && !plan.divides &&
      plan.scratch_bytes == 0 &&
      std::ranges::all_of(plan.last[0], [&](const BoundStep& step) { return suits(plan, step); });
  if (!suit) return;
  for (const BoundStep& step : plan.last[0]) plan.fast_path.push_back(flat(step));
  // Not steps with larger bodies: there may be no memory for their slot, and that error must not
  // occur before the call is recorded.
  const auto waits = std::ranges::find_if(plan.fast_path, [](const FastStep& step) {
    return step.input.ring || !step.others.empty() ||
           step.bytes > transport::SlotRing::kInlineBytes;
  });
  if (waits != plan.fast_path.end())
    plan.fast_sends = static_cast<std::size_t>(waits - plan.fast_path.begin());
}

void runFastPath(const Run& run, std::size_t& at, std::size_t end, int looks) {
  const FastStep* const steps = run.plan->fast_path.data();
  for (; at < end; ++at) {
    const FastStep& step = steps[at];
    if (step.bytes > transport::SlotRing::kInlineBytes)
      for (transport::SlotRing* ring : step.sends) ring->shareReuse(run.plan->reuse_bytes);
    while (!(step.others.empty() ? copy(run, step) : combine(run, step))) {
      if (--looks < 0) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
}

} // namespace rondo::engine
