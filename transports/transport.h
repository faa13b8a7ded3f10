// The interface between the engine and the transports, which move bytes between two ranks.
//
// A channel is one direction between two ranks: ordered, reliable, of bounded depth, for messages
// of at most slot_bytes. Its ends are a sender in one rank and a receiver in the other. An end is
// *mapped* (both ranks see the slots, and the engine fills and reads them, see slot_ring.h) or the
// end of a *network channel* (the operating system or a NIC moves bytes between the two ranks' user
// memory).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/copy.h"
#include "rondo/options.h"
#include "transports/tuning.h"

namespace rondo::transport {

class SlotRing;

/// Identifies a channel. Equal on both ends.
struct ChannelId {
  std::uint64_t communicator = 0;
  int src = 0, dst = 0; ///< ranks in the communicator
  int index = 0;        ///< collectives: plan::Channel::index; Send/Recv: kPointToPoint

  static constexpr int kPointToPoint = 0xffff;
  static constexpr int kSamples = 0xff00; ///< for Options::check_reductions
  auto operator<=>(const ChannelId&) const = default;
};

/// Sent before the body of every message.
struct MessageHeader {
  std::uint64_t signature = 0; ///< of the call; see comm/call.h
  std::uint32_t bytes = 0;     ///< size of the body, less than kMaxChannelBytes
  std::uint32_t checksum = 0;  ///< CRC32C of the body, with Options::checksum

  constexpr MessageHeader() = default;
  constexpr MessageHeader(std::uint64_t call, std::uint64_t size, std::uint32_t sum = 0)
      : signature(call), bytes(static_cast<std::uint32_t>(size)), checksum(sum) {}
};

/// What the receiver does with a message, as far as the sender knows.
enum class Use : std::uint8_t {
  one_way,  ///< only stores it; the sender is idle meanwhile, and can copy a part of it
  keep,     ///< only stores it; the sender does not help to copy it
  combine,  ///< may reduce it; also used if two copies through a slot are faster than one directly
  exchange, ///< reduces it; both ranks need the other's message before they continue
};

/// The location of a lent message body. Only the channel's Loans interpret it.
struct Loan {
  std::array<std::uint64_t, 3> words{};
};

/// Lets the ends of a mapped channel read each other's memory in place. One thread at a time.
class Loans {
 public:
  virtual ~Loans() = default;
  /// Sender: size from which offer() may offer a loan; smaller bodies should be copied.
  virtual std::size_t worthFrom(Use use) const {
    return use == Use::exchange ? kLendExchangedBytes : kLendBytes;
  }
  /// Sender: a loan by which the peer can read this memory; nothing if the peer cannot read it, or
  /// if copying to a slot is faster. Only for bodies larger than SlotRing::kInlineBytes.
  virtual std::optional<Loan> offer(const void* data, std::size_t size, Use use) = 0;
  /// Receiver: the address of the lent body in this process; null if the memory is not mapped here:
  /// then use read(). Throws Error(transport | system).
  virtual const std::byte* find(const Loan& loan, std::size_t size) = 0;
  /// Receiver: copies `size` bytes of the lent body, from `offset` on. False if the kernel refuses
  /// to copy this memory. Throws Error(transport | peer_dead).
  virtual bool read(const Loan& loan, std::size_t offset, void* to, std::size_t size) {
    base::copyBytes(to, find(loan, offset + size) + offset, size);
    return true;
  }
  /// Receiver: whether the sender can copy parts of this body, too, by write().
  virtual bool shared(const Loan& /*loan*/) const { return false; }
  /// Sender: the receiver could not read() a loan. offer() then offers no more memory of that kind.
  virtual void refused() {}
  /// Sender: copies to the receiver's memory, at address `to`. False if the kernel refuses.
  virtual bool write(const void* /*from*/, std::uint64_t /*to*/, std::size_t /*size*/) {
    return false;
  }
  /// Whether the peer's process has ended, so that it no longer accesses this process's memory.
  virtual bool peerEnded() const { return false; }
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

/// The sending end of a network channel. One thread at a time.
class NetworkSender {
 public:
  virtual ~NetworkSender() = default;
  /// Number of messages that were started and that the transport has not taken yet.
  virtual std::size_t pending() const = 0;
  /// Starts a message if fewer than `depth` are pending. False: there is no room, try again later.
  /// The memory must not change until the message is no longer pending.
  virtual bool start(const MessageHeader& header, std::span<const ConstBytes> body) = 0;
  /// Moves what can be moved without blocking; true if anything moved.
  virtual bool progress() = 0;
  /// Whether a pending message still reads any byte of the range.
  virtual bool reads(const void* data, std::size_t size) const = 0;
};

/// The receiving end of a network channel. One thread at a time.
class NetworkReceiver {
 public:
  virtual ~NetworkReceiver() = default;
  /// The header of the next message, or null if it has not arrived. Never blocks. Valid until the
  /// message is received.
  virtual const MessageHeader* peek() = 0;
  /// Receives the body of the message that peek() returned, directly into `body`, whose sizes add
  /// up to the header's bytes. True when complete. Until then, call it again with the same body.
  virtual bool receive(std::span<const MutableBytes> body) = 0;
};

/// The memory of a channel between devices, with addresses of this end's device. It is zeroed when
/// the channel is made, and the transport never accesses it. The receiver polls the inbox and the
/// sender the credit, so each is in the memory where polling is cheapest.
struct DeviceMemory {
  std::shared_ptr<std::byte> inbox, credit;
  std::size_t inbox_bytes = 0;
};

/// Slots that both ranks see.
struct MappedSlots {
  std::shared_ptr<SlotRing> ring;
  std::shared_ptr<Loans> loans; ///< null: every body is copied
};

/// One end of a channel, opened. The engine determines once, when the channel is connected, which
/// of the four alternatives it is. If the channel breaks, all functions throw Error(peer_dead) or
/// Error(transport), with the peer's rank as culprit.
struct Port {
  std::variant<MappedSlots, std::unique_ptr<NetworkSender>, std::unique_ptr<NetworkReceiver>,
               DeviceMemory>
      path;
  std::size_t slot_bytes = 0; ///< largest body
  int depth = 0;
};

/// An opening in progress. One thread at a time may poll it.
class PendingPort {
 public:
  virtual ~PendingPort() = default;
  /// Null until both ends are connected. Throws Error(transport | peer_dead | system | timeout).
  /// Must not be called again after it has returned a port.
  virtual std::unique_ptr<Port> poll() = 0;
  /// Restarts poll()'s deadline, for callers that have a deadline of their own or none.
  virtual void extend() {}
};

/// The data that other ranks need to reach a rank: opaque, at most kMostAddressBytes.
using Address = std::vector<std::byte>;
/// An address is sent in one frame of the control plane, together with those of the other
/// transports.
inline constexpr std::size_t kMostAddressBytes = std::size_t{8} << 10;

/// Moves the messages of all channels of one transport, for one rank of one communicator. For
/// transports that have one queue of completions instead of one for each channel.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Moves what can be moved for all open and opening channels, without blocking; true if anything
  /// moved. Errors are reported by the ports that they concern. Only the thread that uses the ports
  /// calls this; another thread may open channels at the same time.
  virtual bool progress() noexcept = 0;
  /// After a failure: from now on no message accesses the memory of its sender or receiver. Called
  /// as progress().
  virtual void abandon() noexcept {}
};

/// One transport, as one rank of one communicator uses it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual Address address() const = 0;
  /// Largest message body of any channel of this transport. It depends only on Options.
  virtual std::size_t slotBytes() const = 0;
  /// Whether its ports are mapped; if not, they are ends of network channels.
  virtual bool mapped() const = 0;
  /// Whether the peers' devices see each other's memory.
  virtual bool seesDevices() const { return false; }
  /// Whether a peer with this address (of the same kind of transport) can be reached. Must be
  /// symmetric: both ranks must get the same answer.
  virtual bool reaches(const Address& peer) const = 0;
  /// The worker whose progress() must be called as long as there are channels; null if each port
  /// moves its own messages. Exists as long as the transport.
  virtual Worker* worker() { return nullptr; }
  /// Starts to open this rank's end of a channel. Does not wait for the peer: the other end may be
  /// opened much later, and by any thread. Each end is opened once.
  virtual std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& peer) = 0;
};

} // namespace rondo::transport
