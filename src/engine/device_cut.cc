// Chooses protocol, copies and message size of calls on devices, from the constants in
// device_tuning.h.
#include "engine/device_cut.h"

#include <algorithm>

#include "engine/device_tuning.h"
#include "engine/scaling.h"
#include "rondo/error.h"

namespace rondo::engine {

namespace {

/// Most ranks for which lending is considered: it is derived from all ranks' plans, step by step,
/// which takes long for more.
constexpr int kMostLending = 16;

DeviceCut cutForWindows(const plan::RankPlan& plan, plan::Facts& facts,
                        const plan::CallShape& shape, const DeviceLimits& limits) {
  if (limits.window.copies == 0)
    throw Error(ErrorCode::unsupported,
                "the plan needs a switch between all ranks' GPUs, which was not found or failed "
                "its test when the communicator was opened");
  DeviceCut cut;
  cut.copies = device::copiesWithin(limits.residency, facts.mostLanes(), limits.window.copies);
  // Each block of a window is padded at its end.
  const std::size_t padding = plan.window_chunks * plan::kWindowAlignBytes;
  cut.message_bytes = deviceMessageBytes(plan, shape, limits.window.room - padding, cut.copies);
  return cut;
}

} // namespace

DeviceChannel deviceChannel(std::size_t slot_bytes, std::uint64_t depth,
                            const device::Residency& residency) {
  using device::Protocol;
  const auto share = static_cast<std::uint32_t>(residency.blocks / residency.ranks);
  const std::uint32_t most = residency.ranks > 1 ? kMaxCopiesSharing : kMaxCopies;
  const std::uint32_t copies = std::clamp(share, std::uint32_t{1}, most);
  if (copies > kMaxCopies) slot_bytes = std::min(slot_bytes, kDeviceSlot * kMaxCopies / copies);
  return {copies,
          std::min(copies, kLowLatencyCopies),
          {Protocol::simple, depth, slot_bytes},
          {Protocol::low_latency, depth, std::min(slot_bytes, kLowLatencySlot)}};
}

DeviceCut cutForDevice(const plan::RankPlan& plan, plan::Facts& facts, const plan::CallShape& shape,
                       const DeviceLimits& limits, std::size_t most_bytes) {
  if (plan.window_chunks > 0) return cutForWindows(plan, facts, shape, limits);
  const DeviceChannel& channel = limits.channel;
  const bool small = channel.hasLowLatency() && !shape.uneven() &&
                     shape.count * sizeOf(shape.type) <= kLowLatencyBlock;
  DeviceCut cut;
  cut.bundles = !shape.uneven();
  // A packet orders only its own data, but lanes may rely on messages to order their accesses to
  // the same memory (see kernels/cuda/plan/PROOFS.md).
  if (small && facts.oneLane()) cut.protocol = device::Protocol::low_latency;
  cut.copies =
      device::copiesWithin(limits.residency, facts.mostLanes(), channel.copiesOf(cut.protocol));
  std::size_t limit = std::min(channel.of(cut.protocol).slot_bytes, most_bytes);
  if (limits.lends && cut.protocol == device::Protocol::simple && plan.spec.ranks <= kMostLending) {
    cut.lending = &facts.lending(scales(shape.op, shape.type) == Scales::inputs, shape.uneven());
    if (!shape.uneven()) cut.puts = &facts.puts();
    if (cut.lending->always()) limit = std::max(limit, kLentMessage);
  }
  cut.message_bytes = deviceMessageBytes(plan, shape, limit, cut.copies);
  return cut;
}

std::size_t deviceMessageBytes(const plan::RankPlan& plan, const plan::CallShape& shape,
                               std::size_t limit, std::uint32_t copies) {
  if (shape.uneven()) return limit; // a rank need not know all sizes
  // bind() may round up by this much.
  const std::size_t slack = plan::kTileAlignBytes * plan.message_chunks + 2 * sizeOf(shape.type);
  if (limit < 2 * slack) return limit;
  const std::size_t block = shape.count * sizeOf(shape.type);
  const std::size_t share = block / plan.chunks_per_block * plan.message_chunks / copies;
  const std::size_t rounds = share / (limit - slack) + 1;
  const std::size_t element_of_each = 8 * static_cast<std::size_t>(plan.spec.ranks) + 64;
  return std::min(limit, std::max({share / rounds + slack, kLeastMessage, element_of_each}));
}

} // namespace rondo::engine
