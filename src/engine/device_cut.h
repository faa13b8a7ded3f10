// How a call is cut for devices: protocol, number of copies of the plan, and message size. The
// engine and device_count.h use the same function.
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

/// The rings of a channel with slots of `slot_bytes`, for ranks that have the share `residency` of
/// a device.
DeviceChannel deviceChannel(std::size_t slot_bytes, std::uint64_t depth,
                            const device::Residency& residency);

/// Properties of the ranks' devices that all ranks know.
struct DeviceLimits {
  DeviceChannel channel;
  device::Residency residency; ///< of the device on which a rank has the smallest share
  bool lends = false;          ///< each rank's device sees all memory of all ranks
  device::WindowSize window = {};
};

/// The same on all ranks.
struct DeviceCut {
  device::Protocol protocol = device::Protocol::simple;
  std::uint32_t copies = 1;               ///< upper bound: a plan has no more copies than tiles
  std::size_t message_bytes = 0;          ///< size of the largest message
  const plan::Lending* lending = nullptr; ///< from the facts; null: no message is lent
  const plan::Puts* puts = nullptr;       ///< from the facts; null: no message is put
  bool bundles = true;                    ///< the steps of a bundle are done as one
};

/// Cuts a collective. `most_bytes`: largest message that a channel takes. Throws Error(unsupported)
/// if the device has too many ranks for the plan, or if the plan needs windows and the ranks have
/// none.
DeviceCut cutForDevice(const plan::RankPlan& plan, plan::Facts& facts, const plan::CallShape& shape,
                       const DeviceLimits& limits, std::size_t most_bytes);

/// The size of the largest message, at most `limit` bytes, chosen so that all copies do equally
/// many tiles. It depends only on values that all ranks know, so it is the same on all ranks.
std::size_t deviceMessageBytes(const plan::RankPlan& plan, const plan::CallShape& shape,
                               std::size_t limit, std::uint32_t copies);

} // namespace rondo::engine
