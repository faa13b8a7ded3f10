// The window of a rank, and the address at which the switch combines all ranks' windows. See
// device/window.h.
#pragma once

#include <memory>

#include "device/device.h"
#include "device/window.h"

namespace rondo::engine {

/// If size.copies is 0, there is no window.
struct DeviceWindow {
  device::WindowSize size; ///< the same on all ranks
  device::Team::Windows memory;
  std::shared_ptr<void> all; ///< keeps the other ranks' windows alive
  device::Memory meetings;   ///< barrier counters: one std::uint64_t for each copy, zeroed
  int rank = 0;

  device::Window window() const {
    return {memory.own.get(),
            memory.all.get(),
            reinterpret_cast<std::uint64_t*>(meetings.get()),
            size.stride(),
            static_cast<std::uint32_t>(rank),
            size.ranks};
  }
};

} // namespace rondo::engine
