// What transports between devices have in common: how both ends of a channel come to the same
// memory, within a process by the communicator's board, between processes by a descriptor that the
// sender passes when it dials.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>

#include "base/unique_fd.h"
#include "device/device.h"
#include "net/connection.h"
#include "transports/location.h"
#include "transports/mailbox.h"
#include "transports/registry.h"
#include "transports/support.h"

namespace rondo::transport {

/// Inbox and credit of the sizes that the context says, as this rank's device sees them.
struct DeviceParts {
  device::Memory inbox, credit;
};
std::unique_ptr<Port> devicePort(DeviceParts parts, const Context& context);

/// An end whose peer is a thread of this process. Whoever opens the channel first makes its memory,
/// so the end is open at once. Throws Error(invalid_argument) for an end that is open already.
class PendingOnBoard final : public PendingWithDeadline {
 public:
  PendingOnBoard(std::string_view transport, const ChannelId& id, const Context& context,
                 const std::function<DeviceParts()>& make);

 private:
  struct Channel {
    DeviceParts parts;
    std::array<std::atomic<bool>, 2> claimed{};
  };
  std::unique_ptr<Port> attempt() override;

  const Context context_;
  std::shared_ptr<Channel> channel_memory_; ///< lives as long as one of its ends does
};

/// The sender's end towards another process: dials, and passes a descriptor.
class PendingPassing : public PendingWithDeadline {
 public:
  PendingPassing(std::string_view transport, const ChannelId& id, const Context& context);

 protected:
  /// Once, in the constructor.
  void dial(const ChannelId& id, const Location& receiver, int descriptor);
  /// The port, or null to be asked again, on the connection that was made.
  virtual std::unique_ptr<Port> connected(int socket) = 0;

  const Context context_;

 private:
  std::unique_ptr<Port> attempt() final;

  std::unique_ptr<net::Dial> dial_;
  base::UniqueFd socket_;
};

/// The receiver's end: waits for the descriptor of a sender that dials.
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
