// Where connections that peers made wait until this rank opens its end of the channel.
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

/// Where the connections for channels that end at a rank arrive. The sender's end of a channel
/// dials, so nobody waits for the other: a connection is kept here until the receiver's end is
/// opened. Connections to another rank, with impossible numbers, or for a part that has come before
/// are closed. take() may be called from any thread.
///
/// All mailboxes of a process at one address share a listener (net::SharedAcceptor), so a
/// communicator costs no descriptor.
class Mailbox {
 public:
  Mailbox(const Context& context, const net::SocketAddress& address, int parts);

  const net::SocketAddress& address() const;
  /// Connection `part` of the channel, once; nullopt while it has not arrived. Throws Error(system)
  /// when this process cannot accept it.
  std::optional<net::Accepted> take(const ChannelId& id, int part);
  /// As take() of part 0, from a peer that passes one descriptor. Throws Error(transport)
  /// otherwise.
  std::optional<net::Accepted> takeWithDescriptor(const ChannelId& id);

 private:
  using Key = std::pair<ChannelId, int>;
  /// Outlives the listener's last call.
  struct Box {
    void put(net::Accepted accepted);

    int rank = 0, size = 0, parts = 0;
    std::mutex mutex;
    std::map<Key, net::Accepted> waiting;
    std::set<Key> seen; ///< arrived at any time
  };

  const std::shared_ptr<Box> box_;
  std::unique_ptr<net::SharedAcceptor> acceptor_;
};

/// The dialing side's settings for one connection of a channel.
net::Dial::Settings dialSettings(const Context& context, const net::SocketAddress& address,
                                 const ChannelId& id, int part);

} // namespace rondo::transport
