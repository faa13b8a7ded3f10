// One end of a channel between devices that a host carrier serves: moves messages between the ring
// of this rank's kernels and a port.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "device/ring.h"
#include "transports/transport.h"

namespace rondo::engine {

/// A ring that both ends share between devices exists twice here, whole, in host memory that this
/// rank's device sees: the kernels of the sender write theirs as if the receiver stood there, those
/// of the receiver read theirs. The sender's relay returns a slot when the port has taken over its
/// message; the receiver's takes a message from the port when it has a slot for it. So the carrier
/// itself holds a fast sender back, and each message crosses the memory of a rank once.
///
/// One thread calls step(). error(), stranded() and drained() are any thread's: what the relay did
/// before they say so is visible.
class DeviceRelay {
 public:
  struct Settings {
    transport::ChannelId id;
    bool sends = false;
    device::RingSize size;          ///< simple
    transport::DeviceMemory memory; ///< of this rank; zeroed
  };
  /// `pending`: of a carrier that carries messages of size.slot_bytes, or of all that there will
  /// be.
  DeviceRelay(Settings settings, std::unique_ptr<transport::PendingPort> pending);

  /// Moves what can be moved, connects first; true if anything moved. Never blocks or throws.
  bool step();

  /// Why no message travels any more: null, or what the port threw. That is no failure by itself,
  /// as a peer that has done its part may leave. It becomes one when more is wanted: a sender is
  /// stranded(), and a receiver's kernel finds a message that tells it so, see marksEnd().
  std::exception_ptr error() const;
  /// Messages are published that will never leave.
  bool stranded() const { return settings_.sends && error() && !drained(); }
  /// Sending: the port has taken over all that is published. Receiving: always.
  bool drained() const;

  /// Whether a message with this label is the one that stands behind the last of an ended carrier.
  static bool marksEnd(std::uint64_t label) { return label >> 32 == kEndLabel >> 32; }

 private:
  /// No call's: the sequence number in a label is zero.
  static constexpr std::uint64_t kEndLabel = ~std::uint64_t{0};

  bool send();
  bool receive();
  /// Throws Error(transport) for what no kernel can have sent.
  void check(const transport::MessageHeader& header) const;
  bool room() const;
  /// Where the next message of the port stands in the ring.
  std::byte* slot() const;
  device::Label& label() const;
  void publish();

  const Settings settings_;
  const device::Ring ring_;
  std::unique_ptr<transport::PendingPort> pending_;
  std::unique_ptr<transport::Port> port_;
  // The port's, once it is there.
  transport::CarrierSender* sender_ = nullptr;
  transport::CarrierReceiver* receiver_ = nullptr;
  std::uint64_t moved_ = 0;    ///< messages that the port was given, or gave
  std::uint64_t returned_ = 0; ///< of those, slots that the sender may use again
  std::exception_ptr error_;   ///< written before ended_
  std::atomic<bool> ended_{false};
  bool marked_ = false; ///< receiving: the end stands in the ring
};

} // namespace rondo::engine
