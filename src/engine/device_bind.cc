// Binding plans to a device, and putting them there.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "engine/device_cut.h"
#include "engine/device_engine.h"
#include "engine/device_program.h"
#include "engine/device_tuning.h"

namespace rondo::engine {

namespace {

/// Parts of one allocation, each aligned as a ring's.
class Parts {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t at = size_;
    size_ += (bytes + device::kRingLine - 1) / device::kRingLine * device::kRingLine;
    return at;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

/// Ends whose positions are allocated at once: the host waits for memory to be cleared.
constexpr std::size_t kPositionSlab = 64;

} // namespace

BoundPlan DeviceEngine::bind(plan::Planned& planned, const plan::CallShape& shape) {
  const plan::RankPlan& plan = planned.plan();
  const DeviceCut cut = cutForDevice(plan, planned.facts, shape,
                                     {settings_.channel, settings_.residency, settings_.lends},
                                     fabric_.messageBytes());
  BoundPlan bound = engine::bind(plan, shape, fabric_, cut.message_bytes);
  if (cut.lending) lend(bound, *cut.lending, settings_.rank);
  if (cut.landing) land(bound, *cut.landing, settings_.rank);
  if (cut.bundles) bundle(bound, plan);
  putOnDevice(bound, cut.protocol, cut.copies);
  bound.device->function = device_->function(bound.device->launch.program);
  return bound;
}

BoundPlan DeviceEngine::bindMessage(const plan::RankPlan& plan, const plan::CallShape& shape,
                                    std::uint64_t signature) {
  layout_.check();
  if (!batches_) batches_ = device_->batchFunction();
  const bool small =
      settings_.channel.hasLowLatency() && shape.count * sizeOf(shape.type) <= kLowLatencyBlock;
  const auto protocol = small ? device::Protocol::low_latency : device::Protocol::simple;
  const std::size_t slot =
      std::min(settings_.channel.of(protocol).slot_bytes, fabric_.messageBytes());
  const std::uint32_t copies = std::min(layout_.copies(), settings_.channel.copiesOf(protocol));
  BoundPlan bound =
      engine::bind(plan, shape, fabric_, deviceMessageBytes(plan, shape, slot, copies));
  putOnDevice(bound, protocol, copies);
  DevicePlan& device = *bound.device;
  assert(device.launch.program.max_places <= device::kJobPlaces);
  device.launch.signature = signature;
  const auto at = reinterpret_cast<const std::byte*>(device.job) - device.memory.get();
  std::memcpy(device.staged.data() + at, &device.launch, sizeof device.launch);
  return bound;
}

void DeviceEngine::putOnDevice(BoundPlan& bound, device::Protocol protocol, std::uint32_t copies) {
  const bool uneven = bound.shape.uneven();
  if (!uneven) copies = std::min(copies, static_cast<std::uint32_t>(bound.tiles));
  const device::ProgramTables tables = flatten(bound, protocol, copies);
  Parts parts;
  const std::size_t clocks = parts.add(tables.header.blocks() * sizeof(device::LaneClock));
  const std::size_t rings = parts.add(bound.ends.size() * copies * sizeof(device::Ring));
  const std::size_t image = parts.add(tables.bytes());
  const std::size_t job = parts.add(sizeof(device::Launch));
  const std::size_t scratch = parts.add(tables.header.scratch_bytes * copies);

  auto device = std::make_shared<DevicePlan>();
  device->memory = device_->allocateUncleared(parts.size());
  device->staged.resize(scratch); // clocks begin at 0, scratch is written before it is read
  tables.write(device->staged.data() + image);
  std::byte* const at = device->memory.get();
  device->job = reinterpret_cast<const device::Launch*>(at + job);
  device->launch = {
      .program = tables.at(at + image),
      .rings = reinterpret_cast<const device::Ring*>(at + rings),
      .clocks = reinterpret_cast<device::LaneClock*>(at + clocks),
      .scratch = at + scratch,
      .plan = ++numbers_,
      .label_sizes = uneven ? ~0u : 0u,
      .number = static_cast<std::uint32_t>(numbers_),
      .timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(settings_.timeout).count()),
      .halt = reinterpret_cast<device::Halt*>(halt_.get()),
      .panel = &panel()};
  scratch_bytes_ += tables.header.scratch_bytes * copies;
  bound.device = std::move(device);
}

/// Whether all channels are there; makes progress on those that are not. A proxy's need not be.
bool DeviceEngine::connect(BoundPlan& plan) {
  if (plan.connected) return true;
  bool all = true;
  for (End* end : plan.ends) {
    if (end->carrier) {
      fabric_.startOpening(*end);
      proxy_.serve(*end);
    } else {
      all &= fabric_.ready(*end);
    }
  }
  if (!all) return false;
  DevicePlan& device = *plan.device;
  const device::Launch& launch = device.launch;
  auto* ring = device.staged.data() +
               (reinterpret_cast<const std::byte*>(launch.rings) - device.memory.get());
  for (std::uint32_t copy = 0; copy < launch.program.copies; ++copy)
    for (const End* end : plan.ends) {
      const transport::DeviceMemory& memory = end->relayed ? *end->relayed : *end->device;
      const device::Ring made =
          settings_.channel.ring(launch.program.protocol, copy, memory.inbox.get(),
                                 memory.credit.get(), positionsOf(*end));
      std::memcpy(ring, &made, sizeof made);
      ring += sizeof made;
    }
  device_->write(device.memory.get(), device.staged.data(), device.staged.size());
  device.staged = {};
  plan.connected = true;
  return true;
}

std::byte* DeviceEngine::positionsOf(const End& end) {
  std::byte*& at = positions_[&end];
  if (at) return at;
  const std::size_t bytes = settings_.channel.positionBytes();
  const std::size_t place = (positions_.size() - 1) % kPositionSlab;
  if (place == 0) slabs_.push_back(device_->allocate(kPositionSlab * bytes));
  return at = slabs_.back().get() + place * bytes;
}

} // namespace rondo::engine
