// What the ranks of a communicator find out about their devices before the first call.
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
  device::Residency residency;         ///< where a rank's share is the least
  int neighbour = -1;                  ///< another rank of this process on the same device
  transport::ChannelSize size;         ///< of a copy's ring
  bool lends = false; ///< all ranks are of one process and on one device, whose memory they see
  engine::DeviceChannel channel; ///< of the largest that fit; see limitToCarriers()
  engine::DeviceWindow window;   ///< without copies: no switch was proved
  std::string no_switch;         ///< why no switch can reach all devices; empty: who tries knows

  bool switched() const { return window.size.copies > 0; }
  transport::DeviceContext context() const {
    return own ? transport::DeviceContext{own, size, channel.inboxBytes(), channel.creditBytes()}
               : transport::DeviceContext{};
  }
};

/// Collective where `numbers`, every rank's Options::device, name devices. Throws Error(mismatch)
/// when some do and some do not; what openDevice() throws, and Error(init_failed) that holds it on
/// the ranks whose own device is well.
Devices meetDevices(bootstrap::Session& session, const Options& options,
                    const std::vector<int>& numbers);

} // namespace rondo::comm
