// What a call on devices comes to before it runs: steps, bytes and fences, counted from the plans
// as the engine cuts them; and the time that these predict.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan.h"
#include "rondo/types.h"

namespace rondo::engine {

/// Devices, all alike, each with so many of the ranks.
struct DeviceMachine {
  int multiprocessors = 132;
  int ranks_on_device = 1;
  bool lends = false; ///< all ranks are threads of one process on one device
};

/// Of one call. "A tile": of the most that a tile moves. Bytes of all ranks, but where it says so.
struct DeviceCounts {
  bool packets = false;     ///< by the low-latency protocol
  std::uint64_t tiles = 0;  ///< of a block
  std::uint64_t blocks = 0; ///< thread blocks of the rank that has most
  std::uint64_t turns = 0;  ///< tiles that a copy of the plan does, one after the other
  int dependent_steps = 0;  ///< of a tile: the longest chain of steps, or bundles of them, each of
                            ///< which awaits the last
  double lane_bytes = 0;    ///< that the busiest block reads and writes in a tile
  std::uint64_t messages = 0; ///< of all ranks
  std::uint64_t fences = 0;   ///< of warps that tell of messages and of their end, at system scope
  double memory_bytes = 0;    ///< read and written
  double bound_bytes = 0;     ///< each input read once, each output written once
  double link_bytes = 0;      ///< that the rank which sends most sends to other devices
  std::uint32_t most_inputs = 0; ///< of a step

  double fencesPerMessage() const;
  double ofBound() const; ///< memory_bytes / bound_bytes; 0 where nothing moves
};

/// A collective of `count` elements a block by an algorithm that supports `spec`, as
/// DeviceEngine::bind() cuts it. Throws Error(unsupported) where the devices hold too few blocks.
DeviceCounts countOnDevices(const plan::Algorithm& algorithm, const plan::Spec& spec,
                            std::size_t count, DataType type, const DeviceMachine& machine);

/// What a device does in which time. Not measured: guesses from data sheets, to be replaced.
struct DeviceRates {
  double launch_us = 4;      ///< from the launch to the first step, and from the last to the end
  double step_us = 2;        ///< a message's flag, and two barriers
  double packet_step_us = 1; ///< the same where packets tell for themselves
  double block_gbs = 60;     ///< read and written by one block of the plan kernel
  double memory_gbs = 4000;  ///< by all of them
  double link_gbs = 450;     ///< to other devices
};

/// Microseconds. Blocks that wait for flags do not move, so steps and moving add up; what memory
/// and links take passes meanwhile, and counts where it is longer.
struct DeviceTime {
  double launch = 0, steps = 0, moving = 0, memory = 0, link = 0;
  double total() const;
};
DeviceTime predictOnDevices(const DeviceCounts& counts, const DeviceMachine& machine, int ranks,
                            const DeviceRates& rates);

} // namespace rondo::engine
