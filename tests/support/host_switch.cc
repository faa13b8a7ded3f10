// The emulated switches, and the plan kernel's host instances for programs with barriers.
#include "support/host_switch.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>

#include "device/window.h"

namespace rondo::test {

namespace {

/// The address range of a switch. It is read without ordering, because ordering would hide accesses
/// that barriers fail to order. So a switch is accessed only by threads that use its addresses, and
/// may be destroyed while other threads look up theirs.
struct Place {
  std::atomic<bool> taken = false;
  std::atomic<const std::byte*> begin = nullptr, end = nullptr;
  const HostSwitch* one = nullptr;

  bool covers(const std::byte* address) const {
    const auto* const from = begin.load(std::memory_order_relaxed);
    return from && from <= address && address < end.load(std::memory_order_relaxed) &&
           from == begin.load(std::memory_order_relaxed);
  }
};
std::array<Place, 256> places;

} // namespace

HostSwitch::HostSwitch(Windows windows, std::size_t bytes, std::byte* at)
    : windows_(std::move(windows)), bytes_(bytes), reserves_(at == nullptr), all_(at) {
  if (reserves_) {
    void* const reserved =
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) std::abort();
    all_ = static_cast<std::byte*>(reserved);
  }
  while (place_ < places.size() && places[place_].taken.exchange(true)) ++place_;
  if (place_ == places.size()) std::abort();
  places[place_].one = this;
  places[place_].end = all_ + bytes_;
  places[place_].begin = all_;
}

HostSwitch::~HostSwitch() {
  places[place_].begin = nullptr;
  places[place_].taken = false;
  if (reserves_) munmap(all_, bytes_);
}

HostSwitch::Reached HostSwitch::at(const void* address) {
  const auto* wanted = static_cast<const std::byte*>(address);
  for (const Place& place : places)
    if (place.covers(wanted))
      return {*place.one->windows_, static_cast<std::size_t>(wanted - place.one->all_)};
  std::abort();
}

LaneFunction switchLane(DataType of_type, ReduceOp::Kind of_op) {
  return kernels::cuda::selectSwitched(of_type, of_op, [](auto type, auto op) -> LaneFunction {
    return [](const device::Launch& launch, std::uint32_t lane, BlockMemory& memory,
              std::uint32_t thread) {
      HostSwitchBlock block(memory, thread);
      kernels::cuda::PlanKernel<HostSwitchBlock, decltype(type)::value, decltype(op)::value, true>(
          launch, lane, block)
          .run();
    };
  });
}

LaneFunction laneFunction(const device::ProgramHeader& program) {
  if (program.is_barrier) return switchLane(program.type, program.op);
  return isFloat(program.type) ? floatLane(program.type, program.op)
                               : integerLane(program.type, program.op);
}

} // namespace rondo::test
