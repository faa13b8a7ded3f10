// How the memory of one channel between devices is divided: each copy of a plan has its own ring
// for each protocol that the channel serves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/ring.h"

namespace rondo::engine {

/// The same on all ranks. The transport provides inbox and credit; each end has its own positions.
struct DeviceChannel {
  std::uint32_t copies = 1, low_latency_copies = 1;
  device::RingSize simple{device::Protocol::simple, 1, 0};
  device::RingSize low_latency{device::Protocol::low_latency, 1, 0};

  const device::RingSize& of(device::Protocol protocol) const {
    return protocol == device::Protocol::simple ? simple : low_latency;
  }
  std::uint32_t copiesOf(device::Protocol protocol) const {
    return protocol == device::Protocol::simple ? copies : low_latency_copies;
  }
  /// Leaves only what a network channel can serve: one copy, because copies that share one would
  /// wait for each other's messages; and no low-latency rings, because a network cannot see when
  /// packets arrive in memory.
  void limitToNetwork(std::size_t slot_bytes) {
    copies = 1;
    low_latency_copies = 0;
    simple.slot_bytes = slot_bytes;
  }
  bool hasLowLatency() const { return low_latency_copies > 0; }
  std::size_t inboxBytes() const {
    return copies * simple.inboxBytes() + low_latency_copies * low_latency.inboxBytes();
  }
  std::size_t creditBytes() const { return rings() * device::RingSize::creditBytes(); }
  std::size_t positionBytes() const { return rings() * sizeof(device::Position); }

  /// The ring of one copy. The pointers are addresses in this rank's address space.
  device::Ring ring(device::Protocol protocol, std::uint32_t copy, std::byte* inbox,
                    std::byte* credit, std::byte* positions) const {
    const bool low = protocol == device::Protocol::low_latency;
    const std::size_t number = copy + (low ? copies : 0);
    inbox += copy * of(protocol).inboxBytes() + (low ? copies * simple.inboxBytes() : 0);
    return of(protocol).ring(inbox, credit + number * device::RingSize::creditBytes(),
                             reinterpret_cast<device::Position*>(positions) + number);
  }

 private:
  std::size_t rings() const { return copies + low_latency_copies; }
};

} // namespace rondo::engine
