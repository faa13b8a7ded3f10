// Where device programs stand, and how they get there without anybody waiting.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>

#include "device/device.h"

namespace rondo::engine {

/// What a launch of a program uses of its device. Whoever launches it keeps it until the launch has
/// run.
struct ProgramPlace {
  device::Memory memory;
  std::byte* staged = nullptr; ///< of a ring: host memory, from where it may be copied there
  device::Memory scratch;
};

/// A fixed amount of device memory, which programs take in turn, each of them the place of those
/// that came longest ago; what is in use is stepped over. Beside it lies as much host memory for
/// what is to be copied there: a launch waits for its own copy, so when a place is free, then the
/// copy that used it has been made as well, and nobody needs to ask. Not thread-safe.
class ProgramRing {
 public:
  /// Allocates, which may wait for the device.
  ProgramRing(device::Device& device, std::size_t bytes);

  /// A place that stays until nobody but the ring has it and its turn comes again: others find it
  /// again by a weak_ptr. Aligned to device::kRingLine. Null where what is in use leaves no room.
  std::shared_ptr<ProgramPlace> take(std::size_t bytes);

  /// All of it, on the device and the host.
  std::array<device::Memory, 2> memory() const { return {memory_, staged_}; }

 private:
  struct Taken {
    std::size_t end = 0;
    std::shared_ptr<ProgramPlace> place;
  };

  const std::size_t size_;
  const device::Memory memory_, staged_;
  std::map<std::size_t, Taken> taken_; ///< by where they begin; none overlap
  std::size_t next_ = 0;               ///< behind the last one that was taken
};

} // namespace rondo::engine
