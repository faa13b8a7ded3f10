// Predicts a call on devices before it runs: counts steps, bytes and fences in the plans as the
// engine cuts them, and computes a time from these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan.h"
#include "rondo/types.h"

namespace rondo::engine {

/// A machine of equal devices. Each device has `ranks_on_device` ranks.
struct DeviceMachine {
  int multiprocessors = 132;
  int ranks_on_device = 1;
  bool lends = false; ///< all ranks are threads of one process on one device
};

/// Counts of one call. Bytes are sums over all ranks unless stated otherwise. "In a tile" means in
/// the largest tile.
struct DeviceCounts {
  bool packets = false;     ///< the call uses the low-latency protocol
  std::uint64_t tiles = 0;  ///< in one block of the buffer
  std::uint64_t blocks = 0; ///< thread blocks of the rank that has most
  std::uint64_t turns = 0;  ///< tiles that one copy of the plan does, one after the other
  /// Longest chain of steps (or bundles) in a tile in which each waits for the one before.
  int dependent_steps = 0;
  double lane_bytes = 0;      ///< bytes that the busiest thread block reads and writes in a tile
  std::uint64_t messages = 0; ///< of all ranks
  /// System-scope fences of all warps that publish messages or return slots.
  std::uint64_t fences = 0;
  double memory_bytes = 0;       ///< read and written in device memory
  double bound_bytes = 0;        ///< lower bound: each input read once, each output written once
  double link_bytes = 0;         ///< bytes to other devices, of the rank that sends most
  std::uint32_t most_inputs = 0; ///< of any step

  double fencesPerMessage() const;
  double ofBound() const; ///< memory_bytes / bound_bytes; 0 if nothing moves
};

/// Counts a collective of `count` elements per block by an algorithm that supports `spec`, cut as
/// DeviceEngine::bind() cuts it. Throws Error(unsupported) if the devices hold too few thread
/// blocks.
DeviceCounts countOnDevices(const plan::Algorithm& algorithm, const plan::Spec& spec,
                            std::size_t count, DataType type, const DeviceMachine& machine);

/// Rates of a device. They are not measured: they are estimates from data sheets, to be replaced.
struct DeviceRates {
  /// From the launch to the first step, and from the last step to the end.
  double launch_us = 4;
  double step_us = 2;        ///< the flag of a message, and two block barriers
  double packet_step_us = 1; ///< the same with packets, which contain their flags
  double block_gbs = 60;     ///< read and written by one block of the plan kernel
  double memory_gbs = 4000;  ///< read and written by all blocks
  double link_gbs = 450;     ///< to other devices
};

/// Microseconds. A block that waits for a flag moves no data, so `steps` and `moving` add up.
/// `memory` and `link` overlap with them; the longest of the three counts.
struct DeviceTime {
  double launch = 0, steps = 0, moving = 0, memory = 0, link = 0;
  double total() const;
};
DeviceTime predictOnDevices(const DeviceCounts& counts, const DeviceMachine& machine, int ranks,
                            const DeviceRates& rates);

} // namespace rondo::engine
