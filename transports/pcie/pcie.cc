// pcie: inbox and credit lie in host memory, which the devices of both ranks write and read over
// PCIe: for devices on one machine that do not see each other. Ranks of one process find the memory
// on the communicator's board; between processes the sender makes a sealed memory file and passes
// it.
#include <sys/mman.h>

#include <array>
#include <atomic>

#include "base/codec.h"
#include "base/memory_file.h"
#include "rondo/error.h"
#include "transports/location.h"
#include "transports/mailbox.h"
#include "transports/registry.h"
#include "transports/support.h"

namespace rondo::transport {
namespace pcie {
namespace {

using device::Memory;

constexpr const char* kWhat = "pcie address";
constexpr std::size_t kPage = 4096;

/// The credit stands behind the inbox, whose size is whole lines.
std::size_t bytesOf(const Context& context) {
  const std::size_t bytes = context.on.inbox_bytes + context.on.credit_bytes;
  return (bytes + kPage - 1) / kPage * kPage;
}

std::unique_ptr<Port> portOn(const Memory& memory, const Context& context) {
  auto port = std::make_unique<Port>();
  port->device =
      DeviceMemory{memory, {memory, memory.get() + context.on.inbox_bytes}, context.on.inbox_bytes};
  port->slot_bytes = context.on.size.slot_bytes;
  port->depth = context.on.size.depth;
  return port;
}

struct Channel {
  Memory memory;
  std::array<std::atomic<bool>, 2> claimed{};
};

class PendingHere final : public PendingWithDeadline {
 public:
  PendingHere(const ChannelId& id, const Context& context)
      : PendingWithDeadline("pcie", id, context), context_(context) {
    const std::string key = describe("pcie", id) + " of " + std::to_string(id.communicator);
    channel_ = context.board->findOrMake<Channel>(key, [&]() -> std::shared_ptr<Channel> {
      auto made = std::make_shared<Channel>();
      made->memory = context.on.device->allocateHost(bytesOf(context));
      return made;
    });
    if (channel_->claimed[id.src == context.rank ? 0 : 1].exchange(true))
      throw Error(ErrorCode::invalid_argument,
                  PendingWithDeadline::channel_ + ": this end is open already");
  }

 private:
  std::unique_ptr<Port> attempt() override {
    return portOn({channel_, channel_->memory.get()}, context_);
  }

  const Context context_;
  std::shared_ptr<Channel> channel_;
};

Memory mapFile(int file, const Context& context) {
  return context.on.device->mapHost(
      base::mapMemoryFile(file, bytesOf(context), PROT_READ | PROT_WRITE), bytesOf(context));
}

class PendingSender final : public PendingWithDeadline {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Location& receiver)
      : PendingWithDeadline("pcie", id, context), context_(context) {
    const base::UniqueFd file = base::makeMemoryFile(bytesOf(context));
    memory_ = mapFile(file.get(), context);
    auto settings = dialSettings(context, receiver.listener, id, 0);
    settings.pass = {file.get()};
    dial_ = std::make_unique<net::Dial>(settings);
  }

 private:
  std::unique_ptr<Port> attempt() override {
    return dial_->poll() ? portOn(memory_, context_) : nullptr;
  }

  const Context context_;
  Memory memory_;
  std::unique_ptr<net::Dial> dial_;
};

class PendingReceiver final : public PendingWithDeadline {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, std::shared_ptr<Mailbox> mailbox)
      : PendingWithDeadline("pcie", id, context),
        id_(id),
        context_(context),
        mailbox_(std::move(mailbox)) {}

 private:
  std::unique_ptr<Port> attempt() override {
    const auto arrived = mailbox_->takeWithDescriptor(id_);
    if (!arrived) return nullptr;
    const int file = arrived->passed.front().get();
    base::checkMemoryFile(file, bytesOf(context_));
    return portOn(mapFile(file, context_), context_);
  }

  const ChannelId id_;
  const Context context_;
  const std::shared_ptr<Mailbox> mailbox_;
};

class Pcie final : public Transport {
 public:
  Pcie(const Context& context, const std::optional<Place>& place)
      : context_(context), place_(place) {
    if (!place) return;
    net::SocketAddress any;
    any.family = net::SocketAddress::Family::unix_abstract;
    mailbox_ = std::make_shared<Mailbox>(context, any, 1);
  }

  std::string_view name() const override { return "pcie"; }
  std::size_t slotBytes() const override { return context_.on.size.slot_bytes; }
  bool mapped() const override { return true; }

  /// Within one process there is nothing to say.
  Address address() const override {
    return place_ ? Location{*place_, mailbox_->address()}.encode() : Address{};
  }
  bool reaches(const Address& peer) const override {
    if (peer.empty() || !place_) return peer.empty() && !place_;
    return Location::decode(peer, kWhat).place == *place_;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    if (!reaches(address))
      throw Error(ErrorCode::transport, describe("pcie", id) + ": the peer is on another machine");
    if (!place_) return std::make_unique<PendingHere>(id, context_);
    if (id.src == context_.rank)
      return std::make_unique<PendingSender>(id, context_, Location::decode(address, kWhat));
    return std::make_unique<PendingReceiver>(id, context_, mailbox_);
  }

 private:
  const Context context_;
  const std::optional<Place> place_;
  std::shared_ptr<Mailbox> mailbox_;
};

std::unique_ptr<Transport> make(const Context& context) {
  if (context.board) return std::make_unique<Pcie>(context, std::nullopt);
  const auto place = Place::here();
  return place ? std::make_unique<Pcie>(context, place) : nullptr;
}

} // namespace
} // namespace pcie

extern const Kind k_pcie = {"pcie", "devices of one machine, through host memory", true,
                            pcie::make};

} // namespace rondo::transport
