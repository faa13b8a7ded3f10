// Computes the addresses of a step's data: in the caller's buffers, in scratch memory, or in
// messages.
#pragma once

#include <cstddef>

#include "engine/bound_plan.h"
#include "engine/engine.h"

namespace rondo::engine {

/// The start of segment `segment` of a piece, in one tile of the run.
inline std::byte* addressOf(const Run& run, const plan::PieceOffsets& piece, std::size_t segment,
                            std::size_t tile) {
  const std::size_t offset = piece.offsets[segment];
  switch (piece.space) {
    case plan::Space::input:
      // The input is only read; one pointer type keeps the tables simple.
      return const_cast<std::byte*>(run.input) + tile * run.plan->tile_bytes + offset;
    case plan::Space::output: return run.output + tile * run.plan->tile_bytes + offset;
    case plan::Space::scratch:
    case plan::Space::window: break; // plans of the host engine have no windows
  }
  return run.plan->scratch + offset;
}

/// The input of a step that only copies local memory, or null.
inline const plan::PieceOffsets* unchangedInput(const Run& run, const BoundStep& step) {
  const bool unchanged =
      step.inputs.size() == 1 && !step.inputs[0].wire && !(run.scaled() && step.raw_input >= 0);
  return unchanged ? &step.inputs[0].piece : nullptr;
}

/// Returns where the result of a step is in memory; null if only the sent messages contain it.
inline const plan::PieceOffsets* sourceOf(const Run& run, const BoundStep& step) {
  return step.has_output ? &step.output : unchangedInput(run, step);
}

/// Ends the loans of memory that the step writes, see OpenLoans::reclaim().
inline bool reclaimOutput(const Run& run, const BoundStep& step, std::size_t tile) {
  if (!step.has_output) return true;
  const std::size_t element = sizeOf(run.plan->shape.type);
  for (std::size_t s = 0; s < step.segments.size(); ++s)
    if (!run.plan->loans.reclaim(addressOf(run, step.output, s, tile),
                                 step.segments[s].count * element))
      return false;
  return true;
}

} // namespace rondo::engine
