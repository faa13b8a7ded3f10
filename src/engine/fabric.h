// The channels of one rank of one communicator, opened on first use.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// One end of a channel, with the state that the engine keeps for it. Not thread-safe.
struct End {
  transport::ChannelId id;
  int peer = -1;
  bool sends = false;
  std::unique_ptr<transport::PendingPort> pending; ///< while it is being opened
  std::unique_ptr<transport::Port> port;           ///< null until it is open
  bool over_network = false;                       ///< it is the end of a network channel
  transport::Worker* worker = nullptr; ///< of its transport, set when opening starts; may be null
  /// Between devices over a network: the ring of this end. The proxy opens and owns the port.
  std::optional<transport::DeviceMemory> relayed;

  transport::Loans* loans = nullptr; ///< of a ring, or null

  // The kind of the port: exactly one of these is set when the end is open.
  transport::SlotRing* ring = nullptr;
  transport::NetworkSender* sender = nullptr;
  transport::NetworkReceiver* receiver = nullptr;
  const transport::DeviceMemory* device = nullptr;

  /// Receiving over a network: destination of the message of the step in progress.
  enum class Arrival { none, direct, staged, complete } arrival = Arrival::none;
  bool staged = false; ///< the complete message is in `staging`
  /// Receiving: one message. Sending: one message for each slot, used in turn.
  base::AlignedBuffer staging;
  std::size_t next_staging = 0;

  // Receiving, with Options::checksum: checksums of the message of the step in progress.
  std::uint32_t sent_checksum = 0;  ///< in its header; only over a network: rings keep the header
  std::uint32_t found_checksum = 0; ///< of the body that has arrived

  // State of the step in progress on a ring.
  std::optional<transport::Loan> offer; ///< sending: the body is lent instead of copied
  const std::byte* body = nullptr;      ///< receiving
  /// Sending: where the body is written after the message has been published early.
  std::byte* early_body = nullptr;

  bool open() const { return port || relayed; }
  /// The ring that this rank's kernels use. Only for an open end between devices.
  const transport::DeviceMemory& deviceMemory() const { return relayed ? *relayed : *device; }
  bool mapped() const { return ring != nullptr; }
};

/// The transports of a communicator, and the channels to its peers. Not thread-safe.
class Fabric {
 public:
  /// The transport to a peer, and the peer's address.
  struct Peer {
    transport::Transport* transport = nullptr; ///< null for this rank itself
    transport::Address address;
  };

  Fabric(int rank, std::uint64_t communicator,
         std::vector<std::unique_ptr<transport::Transport>> transports, std::vector<Peer> peers,
         std::size_t message_bytes, bool network_channels);

  /// This rank's end of channel (src, dst, index). `sending` selects the end if src == dst. Opens
  /// nothing. The reference stays valid.
  End& end(int src, int dst, int index, bool sending);

  /// From now on a rank's channels to itself use memory that `make` allocates.
  void putSelfOnDevice(std::function<transport::DeviceMemory()> make) { self_device_ = make; }

  /// Starts to open the end, if that has not happened yet. Throws the transport's errors.
  void startOpening(End& end);
  /// Whether the end is connected. Starts to open it and makes progress; never blocks.
  bool ready(End& end);

  /// Whether a message that this peer sent with Send has arrived. Opens the channel, but does not
  /// require that the peer has opened it.
  bool arrived(int peer);

  /// Whether progress() has anything to do.
  bool works() const { return !workers_.empty(); }
  /// Lets the transports' workers make progress for all their channels; true if anything moved.
  bool progress() {
    bool moved = false;
    for (transport::Worker* worker : workers_) moved |= worker->progress();
    return moved;
  }
  /// After a failure: from now on no worker accesses the memory of messages.
  void abandon() {
    for (transport::Worker* worker : workers_) worker->abandon();
  }

  /// Memory of the open channels, in bytes. A slot is counted by the sender; with a proxy between
  /// the ranks, each end counts its own ring.
  struct Memory {
    std::size_t channels = 0, slots = 0, staging = 0;
  };
  Memory memory() const;

  /// "self", or the transport's name.
  std::string_view transportTo(int peer) const;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  /// Largest message body, the same on all ranks.
  std::size_t messageBytes() const { return message_bytes_; }
  /// Whether any two ranks communicate over a network channel; the same on all ranks.
  bool networkChannels() const { return network_channels_; }

 private:
  const Peer& peerOf(const End& end) const;
  void adopt(End& end, std::unique_ptr<transport::Port> port);
  std::unique_ptr<transport::Port> selfPort(int index);

  const int rank_;
  const std::uint64_t communicator_;
  const std::vector<std::unique_ptr<transport::Transport>> transports_;
  const std::vector<Peer> peers_;
  const std::size_t message_bytes_;
  const bool network_channels_;
  std::map<std::pair<transport::ChannelId, bool>, std::unique_ptr<End>> ends_;
  /// of transports with channels; without duplicates
  std::vector<transport::Worker*> workers_;
  std::map<int, std::shared_ptr<void>> self_memory_; ///< by channel index
  std::function<transport::DeviceMemory()> self_device_;
  std::map<int, transport::DeviceMemory> self_device_memory_; ///< by channel index
};

} // namespace rondo::engine
