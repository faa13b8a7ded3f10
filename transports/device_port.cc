// Opens channels between devices: gives both ends the same memory.
#include "transports/device_port.h"

#include <string>
#include <utility>

#include "rondo/error.h"

namespace rondo::transport {

std::unique_ptr<Port> devicePort(DeviceParts parts, const Context& context) {
  auto port = std::make_unique<Port>();
  port->path =
      DeviceMemory{std::move(parts.inbox), std::move(parts.credit), context.on.inbox_bytes};
  port->slot_bytes = context.on.size.slot_bytes;
  port->depth = context.on.size.depth;
  return port;
}

PendingOnBoard::PendingOnBoard(std::string_view transport, const ChannelId& id,
                               const Context& context, const std::function<DeviceParts()>& make)
    : PendingWithDeadline(transport, id, context), context_(context) {
  const std::string key = channel_ + " of " + std::to_string(id.communicator);
  channel_memory_ = context.board->findOrMake<Channel>(key, [&] {
    auto made = std::make_shared<Channel>();
    made->parts = make();
    return made;
  });
  const bool sends = id.src == context.rank;
  if (channel_memory_->claimed[sends ? 0 : 1].exchange(true))
    throw Error(ErrorCode::invalid_argument, channel_ + ": this end is open already");
}

std::unique_ptr<Port> PendingOnBoard::attempt() {
  const DeviceParts& parts = channel_memory_->parts;
  return devicePort({{channel_memory_, parts.inbox.get()}, {channel_memory_, parts.credit.get()}},
                    context_);
}

PendingPassing::PendingPassing(std::string_view transport, const ChannelId& id,
                               const Context& context)
    : PendingWithDeadline(transport, id, context), context_(context) {}

void PendingPassing::dial(const ChannelId& id, const Location& receiver, int descriptor) {
  auto settings = dialSettings(context_, receiver.listener, id, 0);
  settings.pass = {descriptor};
  dial_ = std::make_unique<net::Dial>(settings);
}

std::unique_ptr<Port> PendingPassing::attempt() {
  if (!socket_) {
    auto made = dial_->poll();
    if (!made) return nullptr;
    socket_ = std::move(*made).plain();
  }
  return connected(socket_.get());
}

PendingPassed::PendingPassed(std::string_view transport, const ChannelId& id,
                             const Context& context, std::shared_ptr<Mailbox> mailbox)
    : PendingWithDeadline(transport, id, context),
      context_(context),
      id_(id),
      mailbox_(std::move(mailbox)) {}

std::unique_ptr<Port> PendingPassed::attempt() {
  const auto came = mailbox_->takeWithDescriptor(id_);
  return came ? arrived(came->passed.front().get(), came->socket.get()) : nullptr;
}

std::shared_ptr<Mailbox> localMailbox(const Context& context) {
  net::SocketAddress any;
  any.family = net::SocketAddress::Family::unix_abstract;
  return std::make_shared<Mailbox>(context, any, 1);
}

} // namespace rondo::transport
