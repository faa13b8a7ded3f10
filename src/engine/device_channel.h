// How the memory of one channel between devices is shared out: every copy of a plan has a ring of
// either protocol in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ring.h"

namespace rondo::engine {

/// The same on all ranks. Inbox and credit are what a transport is asked for; positions are each
/// end's own.
struct DeviceChannel {
  std::uint32_t copies = 1, low_latency_copies = 1;
  kernels::cuda::RingSize simple{kernels::cuda::Protocol::simple, 1, 0};
  kernels::cuda::RingSize low_latency{kernels::cuda::Protocol::low_latency, 1, 0};

  const kernels::cuda::RingSize& of(kernels::cuda::Protocol protocol) const {
    return protocol == kernels::cuda::Protocol::simple ? simple : low_latency;
  }
  std::uint32_t copiesOf(kernels::cuda::Protocol protocol) const {
    return protocol == kernels::cuda::Protocol::simple ? copies : low_latency_copies;
  }
  /// Leaves what a stream can carry: copies that shared one would wait for each other's messages,
  /// and packets tell of themselves where they lie.
  void limitToStreams(std::size_t slot_bytes) {
    copies = 1;
    low_latency_copies = 0;
    simple.slot_bytes = slot_bytes;
  }
  bool hasLowLatency() const { return low_latency_copies > 0; }
  std::size_t inboxBytes() const {
    return copies * simple.inboxBytes() + low_latency_copies * low_latency.inboxBytes();
  }
  std::size_t creditBytes() const { return rings() * kernels::cuda::RingSize::creditBytes(); }
  std::size_t positionBytes() const { return rings() * sizeof(kernels::cuda::Position); }

  /// The ring of one copy, its parts as its rank sees them.
  kernels::cuda::Ring ring(kernels::cuda::Protocol protocol, std::uint32_t copy, std::byte* inbox,
                           std::byte* credit, std::byte* positions) const {
    const bool low = protocol == kernels::cuda::Protocol::low_latency;
    const std::size_t number = copy + (low ? copies : 0);
    inbox += copy * of(protocol).inboxBytes() + (low ? copies * simple.inboxBytes() : 0);
    return of(protocol).ring(inbox, credit + number * kernels::cuda::RingSize::creditBytes(),
                             reinterpret_cast<kernels::cuda::Position*>(positions) + number);
  }

 private:
  std::size_t rings() const { return copies + low_latency_copies; }
};

} // namespace rondo::engine
