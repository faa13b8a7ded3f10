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

std::shared_ptr<Together> Together::of(std::string_view transport, const Context& context) {
  return context.board->findOrMake<Together>(
      std::string(transport) + " of " + std::to_string(context.communicator),
      [] { return std::make_shared<Together>(); });
}

PendingOnBoard::PendingOnBoard(std::string_view transport, const ChannelId& id,
                               const Context& context, Together& together,
                               const std::function<DeviceParts()>& make)
    : PendingWithDeadline(transport, id, context), context_(context) {
  const std::string key = channel_ + " of " + std::to_string(id.communicator);
  channel_memory_ = context.board->findOrMake<Together::Channel>(key, [&] {
    auto made = std::make_shared<Together::Channel>();
    made->parts = make();
    return made;
  });
  const std::lock_guard lock(together.mutex);
  const std::size_t side = id.src == context.rank ? 0 : 1;
  if (std::exchange(channel_memory_->claimed[side], true))
    throw Error(ErrorCode::invalid_argument, channel_ + ": this end is open already");
  if (channel_memory_->claimed[1 - side]) together.half_open.erase(channel_memory_);
  else together.half_open.insert(channel_memory_);
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
