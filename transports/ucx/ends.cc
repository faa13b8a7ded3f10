// The ports of UCX channels, and the wait for the other end.
#include "transports/ucx/ends.h"

#include "transports/support.h"

namespace rondo::transport::ucx {
namespace {

class Sender final : public NetworkSender {
 public:
  Sender(std::shared_ptr<Channels> channels, std::shared_ptr<Outbox> box)
      : channels_(std::move(channels)), box_(std::move(box)) {}
  ~Sender() override { channels_->leave(box_); }

  std::size_t pending() const override { return channels_->pending(*box_); }
  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    return channels_->start(*box_, header, body);
  }
  bool progress() override { return channels_->settle(*box_); }
  bool reads(const void* data, std::size_t size) const override {
    return channels_->reads(*box_, data, size);
  }

 private:
  const std::shared_ptr<Channels> channels_;
  const std::shared_ptr<Outbox> box_;
};

class Receiver final : public NetworkReceiver {
 public:
  Receiver(std::shared_ptr<Channels> channels, std::shared_ptr<Inbox> box)
      : channels_(std::move(channels)), box_(std::move(box)) {}
  ~Receiver() override { channels_->leave(box_); }

  const MessageHeader* peek() override { return channels_->peek(*box_); }
  bool receive(std::span<const MutableBytes> body) override {
    return channels_->receive(*box_, body);
  }

 private:
  const std::shared_ptr<Channels> channels_;
  const std::shared_ptr<Inbox> box_;
};

/// An end until the peer has opened its own. The box belongs to this object, or to the port's end.
template <class Box, class End, class Base>
class Pending final : public PendingWithDeadline {
 public:
  Pending(const std::shared_ptr<Channels>& channels, const Context& context, const ChannelId& id,
          ChannelSize size, std::span<const std::byte> address,
          std::shared_ptr<Box> (Channels::*open)(const EndSettings&, std::span<const std::byte>))
      : PendingWithDeadline("ucx", id, context), size_(size), channels_(channels) {
    box_ = (channels.get()->*open)({channel_, id, peer_, size}, address);
  }
  ~Pending() override {
    if (box_) channels_->leave(box_);
  }

 private:
  std::unique_ptr<Port> attempt() override {
    if (!channels_->connected(*box_)) return nullptr;
    auto port = std::make_unique<Port>();
    port->slot_bytes = size_.slot_bytes;
    port->depth = size_.depth;
    port->path = std::unique_ptr<Base>(std::make_unique<End>(channels_, std::move(box_)));
    return port;
  }

  const ChannelSize size_;
  const std::shared_ptr<Channels> channels_;
  std::shared_ptr<Box> box_;
};

} // namespace

std::unique_ptr<PendingPort> openEnd(const std::shared_ptr<Channels>& channels,
                                     const Context& context, const ChannelId& id, ChannelSize size,
                                     std::span<const std::byte> address) {
  if (id.src == context.rank)
    return std::make_unique<Pending<Outbox, Sender, NetworkSender>>(channels, context, id, size,
                                                                    address, &Channels::openOutbox);
  return std::make_unique<Pending<Inbox, Receiver, NetworkReceiver>>(channels, context, id, size,
                                                                     address, &Channels::openInbox);
}

} // namespace rondo::transport::ucx
