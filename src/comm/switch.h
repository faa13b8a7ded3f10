// Makes and tests the windows that a switch between the ranks' devices reaches.
#pragma once

#include "bootstrap/session.h"
#include "comm/devices.h"
#include "engine/device_window.h"

namespace rondo::comm {

/// Collective, when a communicator is opened. Kernels of all ranks store into their own windows,
/// let the switch add these up and multicast, and check both results. If a device cannot do it, or
/// any rank sees a failure, no rank gets windows, and the reason is logged.
engine::DeviceWindow proveSwitch(bootstrap::Session& session, const Options& options,
                                 const Devices& devices);

} // namespace rondo::comm
