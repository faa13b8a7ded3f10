// Binds a plan to a call shape: cuts it into tiles and replaces channel numbers by ends.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "engine/bound_plan.h"
#include "engine/scaling.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// Which results of a call that only moves data are written past the caches.
enum class PastCaches { none, received, all };

/// Whether ordinary stores to lines that are not in this core's caches take much longer than
/// non-temporal stores. So it was on AMD Zen 3: 4 MiB that another process had just written, copied
/// in 600 and 280 us. On AMD Zen 5, which has AVX-512, writing all results past the caches took
/// longer at 4 MiB (us, gather 146 and 201, allgather 284 and 437) and at 16 MiB mostly a little
/// less (1510 and 1367, 2337 and 2157). Zen 4 was not measured.
bool storesAreSlow() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") && !__builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

std::size_t elementsOf(std::uint32_t blocks, const std::vector<std::size_t>& counts,
                       const plan::CallShape& shape) {
  return shape.uneven() ? std::accumulate(counts.begin(), counts.end(), std::size_t{0})
                        : blocks * shape.count;
}

/// Large results of some calls that only move data are written past the caches, because memory
/// bandwidth limits such a call. The caller then reads them from memory.
///
/// Received data, from 8 MiB on (ms, before and after): with 16 MiB blocks, 2 and 4 processes,
/// allgather 3.66 to 3.56 and 24.4 to 20.0, alltoall 4.96 to 4.35 and 32.3 to 28.7. It does not
/// help where only one rank writes (gather 2.39 to 2.67) or where reducing takes the time
/// (allreduce 2.43 to 2.52), nor for the own block (allgather 2.20 to 2.30).
///
/// Where storesAreSlow(), all results, from 8 MiB of input and output of a rank on: see
/// bench/RESULTS.md. 6 MiB is slower: allgather of 2 MiB from each rank 0.47 before, 0.55 after. It
/// pays even if the caller reads the result at once: gather of 16 MiB from each of 2 ranks 5.5
/// to 3.3, with reading 9.0 to 6.5.
PastCaches pastCaches(const plan::RankPlan& plan, const plan::CallShape& shape) {
  constexpr std::size_t kLeast = 8 << 20;
  if (reduces(plan.spec.collective)) return PastCaches::none;
  const std::size_t element = sizeOf(shape.type);
  if (storesAreSlow()) {
    const int rank = hasRoot(plan.spec.collective) ? plan.spec.root : plan.rank;
    const std::size_t in =
        elementsOf(plan::inputBlocks(plan.spec, rank), shape.input.counts, shape);
    const std::size_t out =
        elementsOf(plan::outputBlocks(plan.spec, rank), shape.output.counts, shape);
    return (in + out) * element >= kLeast ? PastCaches::all : PastCaches::none;
  }
  const detail::BufferBlocks& output = traits(plan.spec.collective).output;
  if (!output.perRank() || output.rootOnly()) return PastCaches::none;
  const std::size_t received =
      elementsOf(plan::outputBlocks(plan.spec, plan.rank), shape.output.counts, shape);
  return received * element >= kLeast ? PastCaches::received : PastCaches::none;
}

bool exchanges(const plan::RankPlan& plan) {
  if (plan.spec.collective != Collective::allreduce || plan.spec.ranks != 2) return false;
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step& step : lane.steps)
      for (const plan::Operand& input : step.inputs)
        if (!step.sends.empty() && !(input.local() && input.piece.space == plan::Space::input))
          return false;
  return true;
}

BoundStep boundStep(const plan::Step& step, plan::TiledStep&& tiled,
                    const std::vector<End*>& ends) {
  BoundStep bound;
  bound.bytes = tiled.bytes;
  bound.tiles = tiled.tiles;
  bound.segments = std::move(tiled.segments);
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const plan::Operand& operand = step.inputs[i];
    BoundOperand& input = bound.inputs.emplace_back();
    if (operand.local()) {
      input.piece = std::move(tiled.inputs[i]);
      if (operand.piece.space == plan::Space::input) bound.raw_input = static_cast<int>(i);
    } else {
      input.wire = ends[static_cast<std::size_t>(operand.channel)];
    }
  }
  if (tiled.output) {
    bound.has_output = true;
    bound.output = std::move(*tiled.output);
  }
  for (int channel : step.sends) bound.sends.push_back(ends[static_cast<std::size_t>(channel)]);
  bound.after = step.after;
  return bound;
}

std::vector<BoundLane> boundLanes(const plan::RankPlan& plan,
                                  std::vector<std::vector<plan::TiledStep>>&& tiled,
                                  const std::vector<End*>& ends) {
  std::vector<BoundLane> lanes(tiled.size());
  for (std::size_t lane = 0; lane < tiled.size(); ++lane)
    for (std::size_t s = 0; s < tiled[lane].size(); ++s)
      lanes[lane].push_back(boundStep(plan.lanes[lane].steps[s], std::move(tiled[lane][s]), ends));
  return lanes;
}

void setPastCaches(BoundPlan& bound, PastCaches which) {
  if (which == PastCaches::none) return;
  for (auto* lanes : {&bound.full, &bound.last})
    for (BoundLane& lane : *lanes)
      for (BoundStep& step : lane)
        step.past_caches = step.has_output && step.output.space == plan::Space::output &&
                           step.inputs.size() == 1 &&
                           (which == PastCaches::all || step.inputs[0].wire);
}

} // namespace

BoundPlan bind(const plan::RankPlan& plan, const plan::CallShape& shape, Fabric& fabric,
               std::size_t message_bytes) {
  if (message_bytes == 0) message_bytes = fabric.messageBytes();
  BoundPlan bound;
  bound.shape = shape;
  std::vector<bool> sending(plan.channels.size());
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step& step : lane.steps)
      for (int channel : step.sends) sending[static_cast<std::size_t>(channel)] = true;
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const plan::Channel& channel = plan.channels[c];
    bound.ends.push_back(&fabric.end(channel.src, channel.dst, channel.index, sending[c]));
  }

  const std::size_t element = sizeOf(shape.type);
  const std::size_t limit =
      plan::messageElements(plan, shape, message_bytes, fabric.networkChannels());
  plan::Tiling tiling = plan::cut(plan, shape, plan::tileElements(plan, shape, limit));
  bound.tiles = tiling.tiles;
  bound.tile_bytes = tiling.tile * element;
  bound.scratch_bytes = tiling.scratch_elements * element;
  bound.window_bytes = tiling.window_elements * element;
  bound.full = boundLanes(plan, std::move(tiling.full), bound.ends);
  bound.last = boundLanes(plan, std::move(tiling.last), bound.ends);
  bound.exchanges = exchanges(plan);
  bound.collective = plan.spec.collective;
  bound.lanes_in_step = plan.scratch_chunks > 0 && plan.lanes.size() > 1;
  bound.divides = scales(shape.op, shape.type) == Scales::output &&
                  plan::outputBlocks(plan.spec, plan.rank) > 0;
  bound.cursors.resize(plan.lanes.size());
  bound.scale = kernels::scaleFunction(shape.type);
  setPastCaches(bound, pastCaches(plan, shape));
  for (const auto* lanes : {&bound.full, &bound.last})
    for (std::size_t lane = 0; lane < lanes->size(); ++lane)
      for (std::size_t s = 0; s < (*lanes)[lane].size(); ++s) {
        const BoundStep& step = (*lanes)[lane][s];
        const std::vector<plan::Operand>& inputs = plan.lanes[lane].steps[s].inputs;
        bound.most_inputs = std::max(bound.most_inputs, step.inputs.size());
        bound.most_outputs = std::max(bound.most_outputs, step.sends.size() + 1);
        const bool sums = !inputs.empty() && inputs[0].of_all;
        if (inputs.size() > 1 || sums) bound.reduce = kernels::reduceFunction(shape.type, shape.op);
        const bool wired = !step.sends.empty() ||
                           std::any_of(step.inputs.begin(), step.inputs.end(),
                                       [](const BoundOperand& input) { return input.wire; });
        if (wired && step.bytes > message_bytes)
          throw Error(ErrorCode::unsupported, "a message of " + std::to_string(step.bytes) +
                                                  " bytes does not fit a slot of " +
                                                  std::to_string(message_bytes) +
                                                  " bytes: raise RONDO_BUFFSIZE");
      }
  return bound;
}

} // namespace rondo::engine
