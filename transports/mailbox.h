// Keeps the connections that peers make until this rank opens its end of the channel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "net/shared_acceptor.h"
#include "transports/registry.h"

namespace rondo::transport {

/// The connections for channels that end at this rank. The sender's end of a channel dials, and
/// neither end waits for the other: a connection is kept here until the receiver's end is opened.
/// Connections for another rank, with impossible numbers, for a part that has already arrived, or
/// with TLS where this rank has none (or the other way round) are closed. take() may be called from
/// any thread.
///
/// All mailboxes of a process at one address share a listener (net::SharedAcceptor), so a
/// communicator needs no descriptor of its own.
class Mailbox {
 public:
  Mailbox(const Context& context, const net::SocketAddress& address, int parts);

  const net::SocketAddress& address() const;
  /// Connection `part` of the channel; returned once. nullopt if it has not arrived. Throws
  /// Error(system) if this process cannot accept connections.
  std::optional<net::Accepted> take(const ChannelId& id, int part);
  /// As take() for part 0, from a peer that passes one descriptor. Throws Error(transport) if it
  /// passed another number.
  std::optional<net::Accepted> takeWithDescriptor(const ChannelId& id);

 private:
  using Key = std::pair<ChannelId, int>;
  /// Shared with the listener's callbacks, which may still run when the Mailbox is destroyed.
  struct Box {
    void put(net::Accepted accepted);

    int rank = 0, size = 0, parts = 0;
    bool tls = false;
    std::mutex mutex;
    std::map<Key, net::Accepted> waiting;
    std::set<Key> seen; ///< all that have arrived so far
  };

  const std::shared_ptr<Box> box_;
  std::unique_ptr<net::SharedAcceptor> acceptor_;
};

/// The settings to dial one connection of a channel.
net::Dial::Settings dialSettings(const Context& context, const net::SocketAddress& address,
                                 const ChannelId& id, int part);

} // namespace rondo::transport
