// Connects one end of a channel between devices to a network channel: moves messages between the
// ring of this rank's kernels and a port.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "device/ring.h"
#include "transports/transport.h"

namespace rondo::engine {

/// Where both devices see the same memory, both ends of a channel share one ring. Here each end has
/// a whole ring of its own, in host memory that its device sees. The sender's kernels write to
/// theirs as if it were the receiver's, and the receiver's kernels read from theirs. The sender's
/// relay returns a slot when the port has taken its message. The receiver's relay takes a message
/// from the port when a slot is free. So the network channel's flow control also limits the
/// sender's kernels, and each message passes through the memory of a rank once.
///
/// One thread calls step(). Any thread may call error(), stranded() and drained(); when they report
/// something, everything that the relay did before is visible to the caller.
class DeviceRelay {
 public:
  struct Settings {
    transport::ChannelId id;
    bool sends = false;
    device::RingSize size;          ///< of the simple protocol
    transport::DeviceMemory memory; ///< of this rank; zeroed
  };
  /// `pending`: the port of a network channel whose messages may have size.slot_bytes.
  DeviceRelay(Settings settings, std::unique_ptr<transport::PendingPort> pending);

  /// Moves all messages that can be moved; connects first. True if anything moved. Never blocks or
  /// throws.
  bool step();

  /// The error of the port, after which no message moves any more; null: none. This alone is no
  /// failure, because a peer that has done its part may leave. It becomes one when more messages
  /// are needed: a sender is then stranded(), and a receiver's kernel finds a message that marks
  /// the end, see marksEnd().
  std::exception_ptr error() const;
  /// Whether messages are published that will never be sent.
  bool stranded() const { return settings_.sends && error() && !drained(); }
  /// Sending: the port has taken all published messages. Receiving: always true.
  bool drained() const;

  /// Whether this label says that the network channel has ended: the relay publishes it after the
  /// last message.
  static bool marksEnd(std::uint64_t label) { return label >> 32 == kEndLabel >> 32; }

 private:
  /// It matches no call, because the sequence number in a label is zero.
  static constexpr std::uint64_t kEndLabel = ~std::uint64_t{0};

  bool send();
  bool receive();
  /// Throws Error(transport) for a message that no kernel can have sent.
  void check(const transport::MessageHeader& header) const;
  bool room() const;
  /// The slot for the next message of the port.
  std::byte* slot() const;
  device::Label& label() const;
  void publish();

  const Settings settings_;
  const device::Ring ring_;
  std::unique_ptr<transport::PendingPort> pending_;
  std::unique_ptr<transport::Port> port_;
  // Owned by the port; set when it is connected.
  transport::NetworkSender* sender_ = nullptr;
  transport::NetworkReceiver* receiver_ = nullptr;
  std::uint64_t moved_ = 0;    ///< messages moved between ring and port
  std::uint64_t returned_ = 0; ///< slots returned to the sender so far
  std::exception_ptr error_;   ///< written before ended_
  std::atomic<bool> ended_{false};
  bool marked_ = false; ///< receiving: the end mark is in the ring
};

} // namespace rondo::engine
