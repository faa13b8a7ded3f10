// One step of the host engine: checks that all inputs have arrived and all channels have room,
// computes, and sends.
#include "engine/step.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/copy.h"
#include "base/crc32c.h"
#include "base/ticks.h"
#include "engine/bodies.h"
#include "engine/fast_path.h"
#include "engine/message_checks.h"
#include "engine/step_memory.h"
#include "plan/lend.h"

namespace rondo::engine {

namespace {

/// Messages of this size and above may be lent.
constexpr std::size_t kLarge = transport::SlotRing::kInlineBytes + 1;

/// Bytes of each operand that one pass combines and adds to the checksums.
constexpr std::size_t kChecksumBytes = std::size_t{4} << 10;

/// Whether the step's data needs no copy: its network channels send it from where it is, or one has
/// received it at its destination.
bool alreadyInPlace(const Run& run, const BoundStep& step) {
  if (!step.only_moves_over_network || run.scaled()) return false;
  const End* const from = step.inputs[0].wire;
  return !from || !from->staged;
}

/// Whether messages of the step's later tiles may be copied to the output before these tiles run.
/// This needs a channel that carries only this step's messages, and places in the output that no
/// other step writes to. (If all blocks have one size, another step's piece contains such a place
/// only if its message is longer or has several segments.)
bool sharesLater(const BoundPlan& plan, const BoundStep& step) {
  if (step.inputs.size() != 1 || !step.inputs[0].wire || !step.has_output ||
      step.segments.size() != 1 || step.output.space != plan::Space::output)
    return false;
  for (const BoundLane& lane : plan.full)
    for (const BoundStep& other : lane) {
      if (&other == &step) continue;
      for (const BoundOperand& input : other.inputs)
        if (input.wire == step.inputs[0].wire) return false;
      if (!other.has_output || other.output.space != plan::Space::output) continue;
      if (std::ranges::count(other.output.offsets, step.output.offsets[0]) > 0) return false;
      if (!plan.shape.uneven() && (other.segments.size() > 1 || other.bytes > step.bytes))
        return false;
    }
  return true;
}

/// Continues the checksum `before` over these bytes, and copies them to all outputs. `past_caches`:
/// the copy to the first output bypasses the caches.
std::uint32_t copyWithChecksum(std::uint32_t before, const void* from, std::span<void* const> outs,
                               std::size_t bytes, bool past_caches = false) {
  std::optional<std::uint32_t> sum;
  for (void* const out : outs) {
    if (out == from) continue;
    if (sum) {
      base::copyBytes(out, from, bytes);
    } else {
      sum = base::crc32cOfCopy(before, out, from, bytes, past_caches && out == outs[0]);
    }
  }
  return sum ? *sum : base::crc32c(before, from, bytes);
}

} // namespace

StepRunner::StepRunner(Fabric& fabric, const Settings& settings)
    : oversubscribed_(settings.oversubscribed),
      checksum_(settings.checksum),
      network_(fabric),
      combiner_(settings.threads > 1 ? std::make_unique<Combiner>(settings.threads) : nullptr),
      reduction_check_(settings.check_reductions && fabric.size() > 1
                           ? std::make_unique<ReductionCheck>(fabric)
                           : nullptr) {}

void StepRunner::classify(BoundPlan& plan) const {
  plan.use = useOf(plan);
  if (plan.use == transport::Use::one_way)
    for (BoundLane& lane : plan.full)
      for (BoundStep& step : lane) step.shares_later = sharesLater(plan, step);
  for (auto* lanes : {&plan.full, &plan.last})
    for (BoundLane& lane : *lanes)
      for (BoundStep& step : lane) {
        // If the plan sends over a network, every write must first check for pending sends.
        step.uses_network = step.has_output && !plan.network_out.empty();
        const End* const only = step.inputs.size() == 1 ? step.inputs[0].wire : nullptr;
        step.only_moves_over_network =
            step.inputs.size() == 1 &&
            (only ? step.has_output && !only->mapped() : !step.has_output);
        for (const End* end : step.sends) {
          step.uses_network |= !end->mapped();
          step.only_moves_over_network &= !end->mapped();
        }
        for (const BoundOperand& input : step.inputs)
          step.uses_network |= input.wire && !input.wire->mapped();
        step.small_copy = !checksum_ && !step.uses_network &&
                          step.bytes <= transport::SlotRing::kInlineBytes && step.bytes > 0 &&
                          step.segments.size() == 1 && step.inputs.size() == 1;
        step.sends_first = !checksum_ && !combiner_ && !step.uses_network &&
                           step.inputs.size() == 1 && !step.sends.empty();
        step.copies_result = transport::takingLinesPays() && !checksum_ && !step.uses_network &&
                             step.inputs.size() > 1 && !step.sends.empty() &&
                             step.bytes >= transport::kLargeBodyBytes;
        if (step.inputs.size() == 1 && !reduces(plan.collective))
          step.take_below = transport::kTakeMovedBelow;
        step.sends_early = step.sends_first && plan.use == transport::Use::one_way &&
                           step.segments.size() == 1 && step.bytes >= transport::kEarlyBytes;
      }
  if (!checksum_ && !combiner_ && !(reduction_check_ && reduces(plan.collective)))
    makeFastPath(plan);
}

/// The Use of the plan's messages. It is Use::combine also where two copies through a slot are
/// faster than one copy by the kernel (process_vm_readv).
transport::Use StepRunner::useOf(const BoundPlan& bound) const {
  using transport::Use;
  if (bound.exchanges && !oversubscribed_) return Use::exchange;
  // Several threads that copy to and from slots are faster than one that copies between processes.
  if (reduces(bound.collective) || combiner_) return Use::combine;
  // Ranks that share a processor cannot share the work of a copy. Only in a Scatter one copy by the
  // receiver is still faster, because the receivers have no other work.
  if (oversubscribed_) return bound.collective == Collective::scatter ? Use::keep : Use::combine;
  // Where all ranks send and receive, no rank is idle, so none can help to copy. Times in us of 2
  // processes: slots / slots again (shows the noise) / process_vm_readv. Allgather of 1 MiB:
  // 264 / 257 / 257, of 2 MiB: 564 / 551 / 625. Alltoall of 512 KiB: 116 / 115 / 100, of 1 MiB:
  // 285 / 284 / 271, of 2 MiB: 621 / 707 / 696.
  return plan::movesOneWay(bound.collective) ? Use::one_way : Use::combine;
}

/// attempt() for a BoundStep::small_copy without scaling.
bool StepRunner::copySmall(Run& run, const BoundStep& step, std::size_t tile) {
  const BoundOperand& input = step.inputs[0];
  transport::SlotRing* const ring = input.wire ? input.wire->ring : nullptr;
  const transport::MessageHeader* const header = ring ? ring->readable() : nullptr;
  if (header) {
    requireExpected(run, step, *input.wire, *header);
  } else if (ring) {
    return false;
  }
  for (const End* end : step.sends)
    if (!end->ring->writable(step.bytes)) return false;
  if (!run.plan->loans.empty() && !reclaimOutput(run, step, tile)) return false;
  const std::byte* const from =
      ring ? ring->readBody(step.bytes) : addressOf(run, input.piece, 0, tile);
  if (step.has_output)
    if (std::byte* to = addressOf(run, step.output, 0, tile); to != from)
      base::copyBytes(to, from, step.bytes);
  for (const End* end : step.sends) {
    base::copyBytes(end->ring->writeBody(step.bytes), from, step.bytes);
    end->ring->publish({run.signature, step.bytes});
  }
  if (ring) ring->releaseSmall();
  return true;
}

bool StepRunner::attempt(Run& run, const BoundStep& step, std::size_t tile) {
  if (step.small_copy && !run.scaled()) return copySmall(run, step, tile);
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire || !input.wire->mapped()) continue;
    const transport::MessageHeader* header = input.wire->ring->readable();
    if (!header) return false;
    requireExpected(run, step, *input.wire, *header);
    if (step.bytes < kLarge) input.wire->body = input.wire->ring->readBody(step.bytes);
  }
  for (End* end : step.sends)
    if (end->mapped() && !end->ring->writable(step.bytes)) return false;
  if (step.uses_network ? !network_.ready(run, step, tile)
                        : !run.plan->loans.empty() && !reclaimOutput(run, step, tile))
    return false;
  if (step.bytes >= kLarge) {
    if (!takeBodies(run, step, tile)) return false;
    for (End* end : step.sends) end->offer = offerOf(run, step, *end, tile);
  }

  // A step that only copies lends its input before it copies, so that peers read at the same time.
  const bool lends_first = step.bytes >= kLarge && !checksum_ && unchangedInput(run, step);
  if (lends_first) lend(run, step, tile, 0);
  const bool sent = step.sends_first && !run.scaled();
  std::uint32_t checksum = 0;
  if (checksum_) [[unlikely]] {
    checksum = computeWithChecksum(run, step, tile);
  } else if (sent) {
    sendAndStore(run, step, tile);
  } else if (!alreadyInPlace(run, step)) {
    compute(run, step, tile);
  }

  if (step.bytes >= kLarge && !lends_first) lend(run, step, tile, checksum);
  for (End* end : step.sends) {
    if (!end->mapped()) continue;
    if (!end->offer && !sent) end->ring->publish({run.signature, step.bytes, checksum});
    end->offer.reset();
  }
  if (step.uses_network) network_.send(run, step, tile, checksum);
  for (const BoundOperand& input : step.inputs) {
    if (!input.wire) continue;
    if (input.wire->mapped()) {
      input.wire->ring->release(step.take_below);
    } else {
      input.wire->arrival = End::Arrival::none;
    }
  }
  return true;
}

/// The memory that a step lends, or null.
const std::byte* StepRunner::lentBy(const Run& run, const BoundStep& step, std::size_t tile) {
  if (step.segments.size() != 1) return nullptr;
  const plan::PieceOffsets* const input = unchangedInput(run, step);
  const plan::PieceOffsets* const source = input ? input : sourceOf(run, step);
  return source ? addressOf(run, *source, 0, tile) : nullptr;
}

/// The loan for the step's message; empty if copying is better.
std::optional<transport::Loan> StepRunner::offerOf(const Run& run, const BoundStep& step,
                                                   const End& end, std::size_t tile) const {
  const std::byte* const data = end.loans ? lentBy(run, step, tile) : nullptr;
  if (!data) return {};
  // In place, an exchange would overwrite the memory that it lends.
  const bool overwrites = run.plan->use == transport::Use::exchange && run.input == run.output;
  return OpenLoans::offer(end, data, step.bytes,
                          overwrites ? transport::Use::combine : run.plan->use);
}

/// Lends the message to the peers for which offerOf() has returned a loan.
void StepRunner::lend(const Run& run, const BoundStep& step, std::size_t tile,
                      std::uint32_t checksum) {
  for (End* end : step.sends)
    if (end->offer)
      run.plan->loans.lend(*end, {run.signature, step.bytes, checksum}, lentBy(run, step, tile));
}

/// Where segment `s` of an operand is.
[[gnu::always_inline]] inline const std::byte* inputAt(const Run& run, const BoundStep& step,
                                                       const BoundOperand& input, std::size_t tile,
                                                       std::size_t s) {
  const std::size_t packed = step.segments[s].packed;
  if (!input.wire) return addressOf(run, input.piece, s, tile);
  if (input.wire->mapped()) return input.wire->body + packed;
  if (input.wire->staged) return static_cast<std::byte*>(input.wire->staging.data()) + packed;
  return addressOf(run, step.output, s, tile);
}

[[gnu::always_inline]] inline Operands StepRunner::operandsOf(const Run& run, const BoundStep& step,
                                                              std::size_t tile, std::size_t s) {
  const std::size_t packed = step.segments[s].packed;
  const void** in = ins_.data();
  for (const BoundOperand& input : step.inputs) *in++ = inputAt(run, step, input, tile, s);
  void** out = outs_.data();
  if (step.has_output) *out++ = addressOf(run, step.output, s, tile);
  for (End* end : step.sends) {
    if (end->mapped()) {
      if (!end->offer) *out++ = end->ring->writeBody(step.bytes) + packed;
    } else if (!sourceOf(run, step)) {
      *out++ = network_.staging(*end) + packed;
    }
  }
  return {ins_.data(), static_cast<std::size_t>(in - ins_.data()), outs_.data(),
          static_cast<std::size_t>(out - outs_.data())};
}

inline void StepRunner::combineUnchecked(const Run& run, const BoundStep& step,
                                         const Operands& operands, std::size_t count) {
  if (combiner_) {
    combiner_->combine(run, step, operands, count);
  } else {
    combine(run, step, operands, count);
  }
}

void StepRunner::combineAll(const Run& run, const BoundStep& step, const Operands& operands,
                            std::size_t count) {
  if (operands.out_count == 0) return; // a network channel sends the value from where it is
  if (!reduction_check_) [[likely]]
    return combineUnchecked(run, step, operands, count);
  reduction_check_->before(run, step, operands, count);
  combineUnchecked(run, step, operands, count);
  reduction_check_->after();
}

void StepRunner::compute(const Run& run, const BoundStep& step, std::size_t tile) {
  std::uint64_t begin = 0;
  if (step.copies_result) {
    step.result_way.choose();
    begin = base::ticks();
  }
  for (std::size_t s = 0; s < step.segments.size(); ++s)
    if (const std::size_t count = step.segments[s].count; count > 0)
      combineAll(run, step, operandsOf(run, step, tile, s), count);
  if (step.copies_result) step.result_way.took(base::ticks() - begin);
}

/// Sends the message of a BoundStep::sends_early to the peers for which offerOf() has returned no
/// loan.
void StepRunner::sendEarly(const Run& run, const BoundStep& step, const std::byte* from) {
  for (End* end : step.sends)
    end->early_body = end->offer ? nullptr : end->ring->publishEarly({run.signature, step.bytes});
  for (std::size_t done = 0; done < step.bytes;) {
    const std::size_t piece = std::min(transport::kEarlyPiece, step.bytes - done);
    for (const End* end : step.sends)
      if (end->early_body) {
        base::copyBytes(end->early_body + done, from + done, piece);
        end->ring->wrote(done + piece, step.bytes);
      }
    done += piece;
  }
}

/// compute() for a BoundStep::sends_first without scaling. Publishes the messages that are not
/// lent.
void StepRunner::sendAndStore(const Run& run, const BoundStep& step, std::size_t tile) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  const BoundOperand& input = step.inputs[0];
  if (step.sends_early) sendEarly(run, step, inputAt(run, step, input, tile, 0));
  for (const End* end : step.sends) {
    if (end->offer || step.sends_early) continue;
    std::byte* const body = end->ring->writeBody(step.bytes);
    for (std::size_t s = 0; s < step.segments.size(); ++s)
      if (const std::size_t count = step.segments[s].count; count > 0)
        base::copyBytes(body + step.segments[s].packed, inputAt(run, step, input, tile, s),
                        count * element);
    end->ring->publish({run.signature, step.bytes});
  }
  if (!step.has_output) return;
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const std::size_t bytes = step.segments[s].count * element;
    if (bytes == 0) continue; // the buffers may be null
    const std::byte* const from = inputAt(run, step, input, tile, s);
    std::byte* const to = addressOf(run, step.output, s, tile);
    if (to == from) continue;
    if (step.past_caches) {
      kernels::copyPastCaches(to, from, bytes);
    } else {
      base::copyBytes(to, from, bytes);
    }
  }
}

/// compute() for a step that only moves data. Returns the checksum of the data.
std::uint32_t StepRunner::moveWithChecksum(const Run& run, const BoundStep& step,
                                           std::size_t tile) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const std::size_t bytes = step.segments[s].count * element;
    if (bytes == 0) continue;
    const Operands operands = operandsOf(run, step, tile, s);
    if (combiner_) {
      sum = base::crc32c(sum, operands.ins[0], bytes);
      combineAll(run, step, operands, step.segments[s].count);
      continue;
    }
    const std::size_t most = operands.out_count > 1 ? kChecksumBytes : bytes;
    for (std::size_t done = 0; done < bytes; done += most) {
      const std::size_t part = std::min(most, bytes - done);
      sum = copyWithChecksum(sum, operands.ins[0], {operands.outs, operands.out_count}, part,
                             step.past_caches);
      advance(operands, static_cast<std::ptrdiff_t>(part));
    }
  }
  return sum;
}

/// compute() for a step that combines. Sets the checksums of the messages that it uses, and returns
/// that of the result. Without a thread team it works in pieces of kChecksumBytes, which stay in
/// the first-level cache. AllReduce of 1 MiB between 2 processes over shm, us: without checksums
/// 175; with pieces of 4 KiB 184, of 8 KiB 187, of 16 KiB 193.
std::uint32_t StepRunner::combineWithChecksum(const Run& run, const BoundStep& step,
                                              std::size_t tile) {
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (const BoundOperand& input : step.inputs)
    if (input.wire) input.wire->found_checksum = 0;
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    const std::size_t count = step.segments[s].count;
    if (count == 0) continue;
    const Operands operands = operandsOf(run, step, tile, s);
    // With a thread team, each whole segment is combined into all outputs. Without one, small
    // pieces are combined into the first output, which is then copied to the others with its
    // checksum.
    const std::size_t most = combiner_ ? count : kChecksumBytes / element;
    const std::size_t computed =
        combiner_ ? operands.out_count : std::min<std::size_t>(operands.out_count, 1);
    for (std::size_t done = 0; done < count; done += most) {
      const std::size_t part = std::min(most, count - done), bytes = part * element;
      combineAll(run, step, {operands.ins, operands.in_count, operands.outs, computed}, part);
      // Combining has just read all inputs, so they are in the cache.
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (End* const end = step.inputs[i].wire)
          end->found_checksum = base::crc32c(end->found_checksum, operands.ins[i], bytes);
      if (!step.sends.empty())
        sum = copyWithChecksum(sum, operands.outs[0],
                               {operands.outs + computed, operands.out_count - computed}, bytes);
      advance(operands, static_cast<std::ptrdiff_t>(bytes));
    }
  }
  return sum;
}

/// compute() with checksums. Checks the messages that the step uses, and returns the checksum of
/// the message that it sends. If the step only moves a message, one checksum serves for both.
std::uint32_t StepRunner::computeWithChecksum(const Run& run, const BoundStep& step,
                                              std::size_t tile) {
  std::uint32_t sum = 0;
  const bool receives = std::ranges::any_of(
      step.inputs, [](const BoundOperand& input) { return input.wire != nullptr; });
  if (!receives && step.sends.empty()) {
    compute(run, step, tile);
  } else if (step.inputs.size() == 1 && !(run.scaled() && step.raw_input >= 0)) {
    sum = moveWithChecksum(run, step, tile);
    if (End* const end = step.inputs[0].wire) end->found_checksum = sum;
  } else {
    sum = combineWithChecksum(run, step, tile);
  }
  requireIntact(run, step);
  return sum;
}

} // namespace rondo::engine
