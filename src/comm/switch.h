// Windows that a switch between the ranks' devices reaches: made, and proved, when a communicator
// is opened.
#pragma once

#include "bootstrap/session.h"
#include "comm/devices.h"
#include "engine/device_window.h"

namespace rondo::comm {

/// Collective. Kernels of all ranks store to their own windows and let the switch add these up,
/// then let it store to all of them, and look at what came of both. Where anything of that fails on
/// any rank, or a device cannot do it, there are no windows on any, and the reason is logged.
engine::DeviceWindow proveSwitch(bootstrap::Session& session, const Options& options,
                                 const Devices& devices);

} // namespace rondo::comm
