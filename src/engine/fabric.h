// The channels of one rank of one communicator, opened on first use.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "transports/slot_ring.h"
#include "transports/transport.h"

namespace rondo::engine {

/// One end of a channel, with what the engine keeps for it. Not thread-safe.
struct End {
  transport::ChannelId id;
  int peer = -1;
  bool sends = false;
  std::unique_ptr<transport::PendingPort> pending; ///< while opening
  std::unique_ptr<transport::Port> port;           ///< null until it is open
  bool carrier = false;                            ///< its transport's ports are carriers
  transport::Worker* worker = nullptr; ///< of its transport, once it is being opened; or null
  /// Between devices, a carrier: the ring of this end. A proxy has the port, or opens it.
  std::optional<transport::DeviceMemory> relayed;

  transport::Loans* loans = nullptr; ///< of a ring, or null

  // What the port is: exactly one of these is set once it is there.
  transport::SlotRing* ring = nullptr;
  transport::CarrierSender* sender = nullptr;
  transport::CarrierReceiver* receiver = nullptr;
  const transport::DeviceMemory* device = nullptr;

  /// Receiving carrier: where the message of the step in progress goes.
  enum class Arrival { none, direct, staged, complete } arrival = Arrival::none;
  bool staged = false; ///< the complete message lies in `staging`
  /// Receiving: one message. Sending: one message per pending slot, in rotation.
  base::AlignedBuffer staging;
  std::size_t next_staging = 0;

  // Of the step in progress on a ring.
  std::optional<transport::Loan> offer; ///< sending: the body is lent, not copied
  const std::byte* body = nullptr;      ///< receiving

  bool open() const { return port || relayed; }
  /// Open, between devices: its ring, as this rank's kernels use it.
  const transport::DeviceMemory& deviceMemory() const { return relayed ? *relayed : *device; }
  bool mapped() const { return ring != nullptr; }
};

/// The transports of a communicator and where they lead. Not thread-safe.
class Fabric {
 public:
  /// What the communicator found out about a peer.
  struct Peer {
    transport::Transport* transport = nullptr; ///< null for this rank itself
    transport::Address address;
  };

  Fabric(int rank, std::uint64_t communicator,
         std::vector<std::unique_ptr<transport::Transport>> transports, std::vector<Peer> peers,
         std::size_t message_bytes, bool carriers);

  /// The end of channel (src, dst, index) that is this rank's; `sending` tells which when src ==
  /// dst. Nothing is opened yet. The reference stays valid.
  End& end(int src, int dst, int index, bool sending);

  /// From now on a rank's channels to itself are such memory.
  void putSelfOnDevice(std::function<transport::DeviceMemory()> make) { self_device_ = make; }

  /// Starts to open the end, unless that was done. Throws what the transport finds wrong.
  void startOpening(End& end);
  /// Whether the end is connected; starts to open it, makes progress, never blocks.
  bool ready(End& end);

  /// Whether a message that this peer sent with Send is there. Opens the channel, but does not
  /// expect the peer to have opened it.
  bool arrived(int peer);

  /// Lets the transports move what they move for all their channels together; true if anything did.
  bool progress() {
    bool moved = false;
    for (transport::Worker* worker : workers_) moved |= worker->progress();
    return moved;
  }

  /// What the open channels hold; a slot belongs to the rank that sends, where a proxy stands
  /// between them to either. In bytes, but for `channels`.
  struct Memory {
    std::size_t channels = 0, slots = 0, staging = 0;
  };
  Memory memory() const;

  /// "self", or the transport's name.
  std::string_view transportTo(int peer) const;

  /// Largest message body, the same on all ranks.
  std::size_t messageBytes() const { return message_bytes_; }
  /// Whether any two ranks talk over a carrier; the same on all ranks.
  bool carriers() const { return carriers_; }

 private:
  const Peer& peerOf(const End& end) const;
  void adopt(End& end, std::unique_ptr<transport::Port> port);
  std::unique_ptr<transport::Port> selfPort(int index);

  const int rank_;
  const std::uint64_t communicator_;
  const std::vector<std::unique_ptr<transport::Transport>> transports_;
  const std::vector<Peer> peers_;
  const std::size_t message_bytes_;
  const bool carriers_;
  std::map<std::pair<transport::ChannelId, bool>, std::unique_ptr<End>> ends_;
  std::vector<transport::Worker*> workers_;          ///< of transports with channels, each once
  std::map<int, std::shared_ptr<void>> self_memory_; ///< by channel index
  std::function<transport::DeviceMemory()> self_device_;
  std::map<int, transport::DeviceMemory> self_device_memory_; ///< by channel index
};

} // namespace rondo::engine
