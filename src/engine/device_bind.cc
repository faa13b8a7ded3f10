// Binds plans to a device, and copies their programs to it.
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

/// Computes the layout of a program's memory. Each part is aligned like a ring.
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

/// Positions are allocated for this many ends at once, because each allocation waits until the
/// memory is cleared.
constexpr std::size_t kPositionSlab = 64;

} // namespace

BoundPlan DeviceEngine::bind(plan::Planned& planned, const plan::CallShape& shape) {
  const plan::RankPlan& plan = planned.plan();
  const DeviceCut cut =
      cutForDevice(plan, planned.facts, shape,
                   {settings_.channel, settings_.residency, settings_.lends, settings_.window.size},
                   fabric_.messageBytes());
  BoundPlan bound = engine::bind(plan, shape, fabric_, cut.message_bytes);
  prepare(bound, deviceSteps(plan, cut.lending, cut.puts, cut.bundles), cut.protocol, cut.copies);
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
  prepare(bound, deviceSteps(plan), protocol, copies);
  assert(bound.device->launch.program.max_places <= device::kJobPlaces);
  bound.device->launch.signature = signature;
  return bound;
}

void DeviceEngine::prepare(BoundPlan& bound, const DeviceSteps& steps, device::Protocol protocol,
                           std::uint32_t copies) {
  const bool uneven = bound.shape.uneven();
  if (!uneven) copies = std::min(copies, static_cast<std::uint32_t>(bound.tiles));
  bound.device = std::make_shared<DevicePlan>(flatten(bound, steps, protocol, copies));
  const device::ProgramHeader& header = bound.device->tables.header;
  bound.device->launch = {
      .program = device::Program{header},
      .window = header.is_barrier ? settings_.window.window() : device::Window{},
      .plan = ++numbers_,
      .label_sizes = uneven ? ~0u : 0u,
      .timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(settings_.timeout).count()),
      .halt = reinterpret_cast<device::Halt*>(halt_.get()),
      .panel = &panel()};
}

/// Whether all channels are connected; makes progress on the others. The channels of the proxy need
/// not be connected before a launch.
bool DeviceEngine::connect(BoundPlan& plan) {
  if (plan.connected) return true;
  bool all = true;
  for (End* end : plan.ends) {
    if (end->over_network) {
      fabric_.startOpening(*end);
      proxy_.serve(*end);
    } else {
      all &= fabric_.ready(*end);
    }
  }
  return plan.connected = all;
}

/// Returns the memory that holds the program of a connected plan. If the program is not on the
/// device, it is copied there, before the next work of the stream. `for_good`: the memory lives as
/// long as the plan, because a captured graph refers to it.
std::shared_ptr<const ProgramPlace> DeviceEngine::place(BoundPlan& bound, bool for_good) {
  DevicePlan& plan = *bound.device;
  if (plan.own) return plan.own;
  if (auto place = for_good ? nullptr : plan.place.lock()) return place;

  const device::ProgramHeader& header = plan.tables.header;
  Parts parts;
  const std::size_t clocks = parts.add(header.blocks() * sizeof(device::LaneClock));
  const std::size_t rings = parts.add(bound.ends.size() * header.copies * sizeof(device::Ring));
  const std::size_t image = parts.add(plan.tables.bytes());
  const std::size_t job = parts.add(sizeof(device::Launch));

  std::shared_ptr<ProgramPlace> place = for_good ? nullptr : programs_.take(parts.size());
  std::vector<std::byte> staged;
  if (!place) {
    staged.resize(parts.size());
    place = std::make_shared<ProgramPlace>();
    place->memory = device_->allocateUncleared(parts.size());
    if (for_good) plan.own = place;
  }
  place->scratch = scratch(header.scratch_bytes * header.copies);
  std::byte* const at = place->memory.get();
  std::byte* const from = place->staged ? place->staged : staged.data();

  plan.launch.program = plan.tables.at(at + image);
  plan.launch.rings = reinterpret_cast<const device::Ring*>(at + rings);
  plan.launch.clocks = reinterpret_cast<device::LaneClock*>(at + clocks);
  plan.launch.scratch = place->scratch.get();
  plan.launch.number = static_cast<std::uint32_t>(++numbers_);
  plan.job = reinterpret_cast<const device::Launch*>(at + job);

  std::memset(from + clocks, 0, rings - clocks);
  writeRings(bound, from + rings);
  plan.tables.write(from + image);
  std::memcpy(from + job, &plan.launch, sizeof plan.launch);
  if (place->staged) device_->write(stream_, at, from, parts.size());
  else device_->write(at, from, parts.size());
  plan.place = place;
  return place;
}

void DeviceEngine::writeRings(const BoundPlan& plan, std::byte* to) {
  const device::Program& program = plan.device->launch.program;
  for (std::uint32_t copy = 0; copy < program.copies; ++copy)
    for (const End* end : plan.ends) {
      const transport::DeviceMemory& memory = end->deviceMemory();
      const device::Ring ring = settings_.channel.ring(program.protocol, copy, memory.inbox.get(),
                                                       memory.credit.get(), positionsOf(*end));
      std::memcpy(to, &ring, sizeof ring);
      to += sizeof ring;
    }
}

/// All launches use the same scratch memory, because they run one after the other. Launches in
/// flight and captured graphs keep the memory that they were given.
device::Memory DeviceEngine::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_bytes_ = std::max(bytes, 2 * scratch_bytes_);
    scratch_ = device_->allocateUncleared(scratch_bytes_);
  }
  return scratch_;
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
