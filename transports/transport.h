// The contract between the engine and whatever moves bytes between two ranks.
//
// A channel is one direction between two ranks: ordered, reliable, of bounded depth, carrying
// messages of at most slot_bytes. Its ends are a Sender in one rank and a Receiver in the other. An
// end is *mapped* (both ranks see the slots: the engine fills and reads them itself, see
// slot_ring.h) or a *carrier* (the kernel or a NIC moves bytes between user memory of the two).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rondo/options.h"
#include "transports/tuning.h"

namespace rondo::transport {

class SlotRing;

/// Which channel of which communicator. Equal on both ends.
struct ChannelId {
  std::uint64_t communicator = 0;
  int src = 0, dst = 0; ///< ranks within the communicator
  int index = 0;        ///< collectives: plan::Channel::index; Send/Recv: kPointToPoint

  static constexpr int kPointToPoint = 0xffff;
  auto operator<=>(const ChannelId&) const = default;
};

/// What travels in front of every message.
struct MessageHeader {
  std::uint64_t signature = 0; ///< of the call; see comm/call.h
  std::uint64_t bytes = 0;     ///< of the body
};

/// Where a lent message body stands: opaque to all but the channel's Loans.
struct Loan {
  std::array<std::uint64_t, 3> words{};
};

/// How the ends of a mapped channel read each other's memory where it stands. One thread at a time.
class Loans {
 public:
  virtual ~Loans() = default;
  /// Bodies from here on are better lent than copied; smaller ones in an exchange, where both ranks
  /// need the other's message before they go on.
  virtual std::size_t worthFrom(bool exchange) const {
    return exchange ? kLendExchangedBytes : kLendBytes;
  }
  /// The sender's side: how the peer finds this memory; nothing when it cannot see it. Only asked
  /// for what does not fit a line.
  virtual std::optional<Loan> offer(const void* data, std::size_t size) = 0;
  /// The receiver's side: where it stands here. Throws Error(transport | system).
  virtual const std::byte* find(const Loan& loan, std::size_t size) = 0;
  /// Whether memory that the sender frees stays readable for a receiver that is just reading it.
  virtual bool outliveSender() const = 0;
};

/// A piece of memory, as for writev.
struct ConstBytes {
  const void* data = nullptr;
  std::size_t size = 0;
};
struct MutableBytes {
  void* data = nullptr;
  std::size_t size = 0;
};

/// The end of a carrier channel that sends. One thread at a time.
class CarrierSender {
 public:
  virtual ~CarrierSender() = default;
  /// Messages started and not yet taken over by the transport.
  virtual std::size_t pending() const = 0;
  /// Starts a message when fewer than `depth` are pending; false: no room, try again later. The
  /// memory must stay unchanged until the message is no longer pending.
  virtual bool start(const MessageHeader& header, std::span<const ConstBytes> body) = 0;
  /// Moves what it can without blocking; true if anything moved.
  virtual bool progress() = 0;
  /// Whether a pending message still reads any byte of the range.
  virtual bool reads(const void* data, std::size_t size) const = 0;
};

/// The end of a carrier channel that receives. One thread at a time.
class CarrierReceiver {
 public:
  virtual ~CarrierReceiver() = default;
  /// The header of the next message, or null while it has not arrived. Never blocks. Valid until
  /// the message was received.
  virtual const MessageHeader* peek() = 0;
  /// Receives the body of the message that peek() showed, straight into `body`, whose sizes add up
  /// to the header's bytes; true when complete. Call again, with the same body, until it is.
  virtual bool receive(std::span<const MutableBytes> body) = 0;
};

/// The memory of a channel between devices, under the addresses that this end's device uses: zeroed
/// when the channel is made, never touched by the transport. The receiver polls the inbox and the
/// sender the credit, so each lies with whom that is cheapest for.
struct DeviceMemory {
  std::shared_ptr<std::byte> inbox, credit;
  std::size_t inbox_bytes = 0;
};

/// Slots that both ranks see.
struct MappedSlots {
  std::shared_ptr<SlotRing> ring;
  std::shared_ptr<Loans> loans; ///< null: every body is copied
};

/// One end of a channel, opened: the engine looks once, when the channel is connected, which of the
/// four it is. All functions throw Error(peer_dead) or Error(transport), with the peer's rank as
/// culprit, when the channel broke.
struct Port {
  std::variant<MappedSlots, std::unique_ptr<CarrierSender>, std::unique_ptr<CarrierReceiver>,
               DeviceMemory>
      path;
  std::size_t slot_bytes = 0; ///< largest body
  int depth = 0;
};

/// An opening in progress. Polled by one thread at a time.
class PendingPort {
 public:
  virtual ~PendingPort() = default;
  /// Null until both ends are connected. Throws Error(transport | peer_dead | system | timeout).
  /// Must not be called again after it returned a port.
  virtual std::unique_ptr<Port> poll() = 0;
  /// The time until poll()'s deadline begins again: no call waits for the peer yet.
  virtual void extend() {}
};

/// What a rank must tell the others so that they can reach it: opaque, at most kMostAddressBytes.
using Address = std::vector<std::byte>;
/// An address travels within a frame of the control plane, beside those of the other transports.
inline constexpr std::size_t kMostAddressBytes = std::size_t{8} << 10;

/// Moves the messages of all channels of one transport, for one rank of one communicator: for
/// transports that have one queue of completions, not one for each channel.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Moves what it can for all channels that are open or being opened, without blocking; true if
  /// anything moved. What breaks shows at the ports that it concerns. Only the thread that uses the
  /// ports calls it; another may open channels meanwhile.
  virtual bool progress() noexcept = 0;
};

/// One transport, as one rank of one communicator uses it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual Address address() const = 0;
  /// Largest message body of any channel of this transport; follows from Options alone.
  virtual std::size_t slotBytes() const = 0;
  /// Whether its ports are mapped; else they are carriers.
  virtual bool mapped() const = 0;
  /// Whether the peers' devices see each other's memory.
  virtual bool seesDevices() const { return false; }
  /// Whether a peer with this address (made by the same kind of transport) can be reached. Must be
  /// symmetric: both sides come to the same answer.
  virtual bool reaches(const Address& peer) const = 0;
  /// What must be called, as long as there are channels, for their messages to move; null where
  /// each port moves its own. Lives as long as the transport.
  virtual Worker* worker() { return nullptr; }
  /// Starts to open this rank's end of a channel. Does not wait for the peer: its other end may be
  /// opened much later, and by any thread. Each end is opened once.
  virtual std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& peer) = 0;
};

} // namespace rondo::transport
