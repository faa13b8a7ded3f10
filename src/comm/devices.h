// Agrees about the ranks' devices before a communicator's first call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bootstrap/session.h"
#include "device/device.h"
#include "device/residency.h"
#include "engine/device_channel.h"
#include "engine/device_window.h"
#include "rondo/options.h"
#include "transports/registry.h"

namespace rondo::comm {

struct Devices {
  std::shared_ptr<device::Device> own; ///< null: buffers are in host memory
  device::Residency residency;         ///< of the device where a rank's share is smallest
  int neighbour = -1;                  ///< another rank of this process on the same device
  transport::ChannelSize size;         ///< of the ring of one copy
  bool lends = false; ///< one process and one device, so all ranks can read each other's memory
  engine::DeviceChannel channel; ///< with the largest size that fits; see limitToNetwork()
  engine::DeviceWindow window;   ///< without copies: no switch was proved to work
  std::string no_switch; ///< why no switch can be used; empty: unknown until proveSwitch() tries

  bool switched() const { return window.size.copies > 0; }
  transport::DeviceContext context() const {
    return own ? transport::DeviceContext{own, size, channel.inboxBytes(), channel.creditBytes()}
               : transport::DeviceContext{};
  }
};

/// Collective if any entry of `numbers` (each rank's Options::device) names a device. Throws
/// Error(mismatch) when some ranks use a device and others do not. When a rank's device cannot be
/// opened, that rank throws the error of openDevice(), and all others throw Error(init_failed).
Devices meetDevices(bootstrap::Session& session, const Options& options,
                    const std::vector<int>& numbers);

} // namespace rondo::comm
