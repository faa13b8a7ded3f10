// How a call is cut for devices: by which protocol, in how many copies of its plan, in messages of
// which size. One answer for the engine and for who predicts what it does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/residency.h"
#include "device/ring.h"
#include "device/window.h"
#include "engine/device_channel.h"
#include "plan/facts.h"
#include "plan/tiles.h"

namespace rondo::engine {

/// The rings of a channel with slots of `slot_bytes`, for ranks whose share of a device is that.
DeviceChannel deviceChannel(std::size_t slot_bytes, std::uint64_t depth,
                            const device::Residency& residency);

/// What all ranks know of each other's devices.
struct DeviceLimits {
  DeviceChannel channel;
  device::Residency residency; ///< of the device where a rank has the smallest share
  bool lends = false;          ///< each rank's device sees all memory of all ranks
  device::WindowSize window = {};
};

/// The same on all ranks.
struct DeviceCut {
  device::Protocol protocol = device::Protocol::simple;
  std::uint32_t copies = 1;               ///< at most: no more than there are tiles
  std::size_t message_bytes = 0;          ///< of the largest message
  const plan::Lending* lending = nullptr; ///< of the facts; null: every message is sent
  const plan::Landing* landing = nullptr; ///< of the facts; null: none lands
  bool bundles = true;                    ///< steps of bundles are done as one
};

/// For a collective; `most_bytes`: what a channel takes. Throws Error(unsupported) where the ranks
/// on a device are too many for the plan, or it needs windows that they do not have.
DeviceCut cutForDevice(const plan::RankPlan& plan, plan::Facts& facts, const plan::CallShape& shape,
                       const DeviceLimits& limits, std::size_t most_bytes);

/// The largest message, of at most `limit` bytes, so that all copies have as many tiles to do: the
/// same on all ranks, of what all know.
std::size_t deviceMessageBytes(const plan::RankPlan& plan, const plan::CallShape& shape,
                               std::size_t limit, std::uint32_t copies);

} // namespace rondo::engine
