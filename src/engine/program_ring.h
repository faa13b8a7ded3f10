// Memory for device programs, allocated in turn, so that copying a program to the device does not
// block.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>

#include "device/device.h"

namespace rondo::engine {

/// The device memory of a program. The launcher keeps it until the launch has run.
struct ProgramPlace {
  device::Memory memory;
  /// Host memory of the same size, from which the program may be copied; null outside the ring.
  std::byte* staged = nullptr;
  device::Memory scratch;
};

/// A fixed amount of device memory, allocated to programs in turn. A new program takes the place of
/// the oldest ones; places in use are skipped. Each place has host memory of the same size, from
/// which its program is copied. A launch runs after its program's copy, so when a place is free,
/// that copy has ended too, and no check is needed. Not thread-safe.
class ProgramRing {
 public:
  /// Allocates memory, which may wait for the device.
  ProgramRing(device::Device& device, std::size_t bytes);

  /// A place that stays valid until only the ring refers to it and its memory is allocated again; a
  /// weak_ptr to it finds it until then. Aligned to device::kRingLine. Null if the places in use
  /// leave no room.
  std::shared_ptr<ProgramPlace> take(std::size_t bytes);

  /// All its memory, on the device and on the host.
  std::array<device::Memory, 2> memory() const { return {memory_, staged_}; }

 private:
  struct Taken {
    std::size_t end = 0;
    std::shared_ptr<ProgramPlace> place;
  };

  const std::size_t size_;
  const device::Memory memory_, staged_;
  std::map<std::size_t, Taken> taken_; ///< by start offset; no two overlap
  std::size_t next_ = 0;               ///< end of the place that was taken last
};

} // namespace rondo::engine
