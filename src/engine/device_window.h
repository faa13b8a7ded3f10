// A rank's window, and the address of all ranks': see device/window.h.
#pragma once

#include <memory>

#include "device/device.h"
#include "device/window.h"

namespace rondo::engine {

/// Without copies in its size: there is none.
struct DeviceWindow {
  device::WindowSize size; ///< the same on all ranks
  device::Team::Windows memory;
  std::shared_ptr<void> all; ///< keeps the other ranks' windows
  device::Memory meetings;   ///< one std::uint64_t for each copy, zeroed
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
