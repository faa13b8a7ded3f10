// The common part of transports between devices: gives both ends of a channel the same memory.
// Within a process the ends find it on the communicator's board; between processes the sender
// passes a descriptor when it dials.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/unique_fd.h"
#include "device/device.h"
#include "net/connection.h"
#include "transports/location.h"
#include "transports/mailbox.h"
#include "transports/registry.h"
#include "transports/support.h"

namespace rondo::transport {

/// The memory of a channel, with addresses of this rank's device. The sizes are those of the
/// context.
struct DeviceParts {
  device::Memory inbox, credit;
};
std::unique_ptr<Port> devicePort(DeviceParts parts, const Context& context);

/// What the transports of a communicator's ranks own together if the ranks are threads of one
/// process. It exists until the last of these transports ends: a rank may send and leave before its
/// peer opens the other end of the channel.
struct Together {
  struct Channel {
    DeviceParts parts;
    std::array<bool, 2> claimed{};
  };
  static std::shared_ptr<Together> of(std::string_view transport, const Context& context);

  std::mutex mutex;
  std::map<int, std::shared_ptr<device::Device>> devices; ///< of the ranks
  std::set<std::shared_ptr<Channel>> half_open;           ///< one end has been opened
};

/// An end whose peer is a thread of this process. The rank that opens the channel first makes its
/// memory, so an end is open at once. Throws Error(invalid_argument) for an end that is already
/// open.
class PendingOnBoard final : public PendingWithDeadline {
 public:
  PendingOnBoard(std::string_view transport, const ChannelId& id, const Context& context,
                 Together& together, const std::function<DeviceParts()>& make);

 private:
  std::unique_ptr<Port> attempt() override;

  const Context context_;
  std::shared_ptr<Together::Channel> channel_memory_;
};

/// The sender's end of a channel to another process: dials and passes a descriptor.
class PendingPassing : public PendingWithDeadline {
 public:
  PendingPassing(std::string_view transport, const ChannelId& id, const Context& context);

 protected:
  /// Call once, in the constructor.
  void dial(const ChannelId& id, const Location& receiver, int descriptor);
  /// The port for the connection, or null to be called again.
  virtual std::unique_ptr<Port> connected(int socket) = 0;

  const Context context_;

 private:
  std::unique_ptr<Port> attempt() final;

  std::unique_ptr<net::Dial> dial_;
  base::UniqueFd socket_;
};

/// The receiver's end: waits for a sender to dial and pass a descriptor.
class PendingPassed : public PendingWithDeadline {
 public:
  PendingPassed(std::string_view transport, const ChannelId& id, const Context& context,
                std::shared_ptr<Mailbox> mailbox);

 protected:
  virtual std::unique_ptr<Port> arrived(int descriptor, int socket) = 0;

  const Context context_;

 private:
  std::unique_ptr<Port> attempt() final;

  const ChannelId id_;
  const std::shared_ptr<Mailbox> mailbox_;
};

/// A mailbox for connections from this machine, one for each channel.
std::shared_ptr<Mailbox> localMailbox(const Context& context);

} // namespace rondo::transport
