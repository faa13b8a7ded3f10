// nvlink: connects devices that can access each other's memory, or ranks on one device. The inbox
// is in the receiver's memory and the credit in the sender's. Ranks of one process find both on the
// communicator's board. Between processes the sender passes the credit's handle when it dials, and
// receives the inbox's handle over the same connection.
#include <algorithm>

#include "base/codec.h"
#include "rondo/detail/hash.h"
#include "rondo/error.h"
#include "transports/device_port.h"
#include "transports/nvlink/handles.h"

namespace rondo::transport {
namespace nvlink {
namespace {

using device::Device;
using device::DeviceIdentity;
using device::Memory;

constexpr const char* kWhat = "nvlink address";
/// Most devices that a rank names. It reaches further devices by other transports.
constexpr std::size_t kMostReached = 16;

/// A hash of an identity, in 8 bytes, so that an address has room for many.
std::uint64_t shortOf(const DeviceIdentity& identity) { return detail::fnv1a(identity.uuid); }

/// The address of a rank: its device, and the devices that it can and cannot access.
struct Card {
  std::vector<std::uint64_t> reached; ///< can be accessed; its own device is the first
  std::vector<std::uint64_t> beyond;  ///< known to be inaccessible
  std::optional<Location> location;   ///< set between processes

  Address encode() const {
    base::Writer out;
    for (const auto* devices : {&reached, &beyond}) {
      out.u8(static_cast<std::uint8_t>(devices->size()));
      for (std::uint64_t device : *devices) out.u64(device);
    }
    if (location) location->write(out);
    return out.take();
  }
  static Card decode(const Address& address) {
    base::Reader in(address, kWhat);
    Card card;
    for (auto* named : {&card.reached, &card.beyond}) {
      const std::size_t devices = in.u8();
      if (devices > kMostReached || (devices == 0 && named == &card.reached))
        in.fail("names " + std::to_string(devices) + " devices");
      for (std::size_t i = 0; i < devices; ++i) named->push_back(in.u64());
    }
    if (in.left() > 0) card.location = Location::read(in);
    return card;
  }

  /// On one machine, a peer counts as reachable if its device is unknown to this rank: some
  /// launchers show each process only its own device. The link test decides later whether the link
  /// works.
  bool reaches(const Card& other) const {
    const auto has = [](const std::vector<std::uint64_t>& devices, const Card& whose) {
      return std::find(devices.begin(), devices.end(), whose.reached[0]) != devices.end();
    };
    const auto sees = [&](const Card& from, const Card& to) {
      return has(from.reached, to) || (from.location && !has(from.beyond, to));
    };
    if (location.has_value() != other.location.has_value()) return false;
    if (location && location->scope != other.location->scope) return false;
    return sees(*this, other) && sees(other, *this);
  }
};

class PendingSender final : public PendingPassing {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Location& receiver)
      : PendingPassing("nvlink", id, context) {
    Device::Shared credit = context.on.device->allocateShared(context.on.credit_bytes);
    credit_ = std::move(credit.memory);
    dial(id, receiver, credit.handle.get());
  }

 private:
  std::unique_ptr<Port> connected(int socket) override {
    const auto handle = receiveHandle(socket);
    if (!handle) return nullptr;
    Memory inbox = context_.on.device->mapShared(handle->get(), context_.on.inbox_bytes);
    return devicePort({std::move(inbox), std::move(credit_)}, context_);
  }

  Memory credit_;
};

class PendingReceiver final : public PendingPassed {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, std::shared_ptr<Mailbox> mailbox)
      : PendingPassed("nvlink", id, context, std::move(mailbox)) {}

 private:
  std::unique_ptr<Port> arrived(int handle, int socket) override {
    Device& device = *context_.on.device;
    Memory credit = device.mapShared(handle, context_.on.credit_bytes);
    Device::Shared inbox = device.allocateShared(context_.on.inbox_bytes);
    sendHandle(socket, inbox.handle.get());
    return devicePort({std::move(inbox.memory), std::move(credit)}, context_);
  }
};

class Nvlink final : public Transport {
 public:
  explicit Nvlink(const Context& context, const std::optional<Scope>& scope) : context_(context) {
    for (const DeviceIdentity& identity : context.on.device->reach())
      if (card_.reached.size() < kMostReached) card_.reached.push_back(shortOf(identity));
    for (const DeviceIdentity& identity : context.on.device->beyond())
      if (card_.beyond.size() < kMostReached) card_.beyond.push_back(shortOf(identity));
    if (scope) {
      mailbox_ = localMailbox(context);
      card_.location = Location{*scope, mailbox_->address()};
    } else {
      together_ = Together::of("nvlink", context);
      const std::lock_guard lock(together_->mutex);
      together_->devices[context.rank] = context.on.device;
    }
  }

  std::string_view name() const override { return "nvlink"; }
  std::size_t slotBytes() const override { return context_.on.size.slot_bytes; }
  bool mapped() const override { return true; }
  bool seesDevices() const override { return true; }
  Address address() const override { return card_.encode(); }
  bool reaches(const Address& peer) const override { return card_.reaches(Card::decode(peer)); }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    const Card peer = Card::decode(address);
    if (!card_.reaches(peer))
      throw Error(ErrorCode::transport,
                  describe("nvlink", id) + ": the devices cannot access each other's memory");
    const int other = peerOf(id, context_);
    if (!card_.location) return openHere(id, *deviceOf(other));
    if (id.src == context_.rank)
      return std::make_unique<PendingSender>(id, context_, *peer.location);
    return std::make_unique<PendingReceiver>(id, context_, mailbox_);
  }

 private:
  std::unique_ptr<PendingPort> openHere(const ChannelId& id, Device& peer) const {
    Device& own = *context_.on.device;
    own.use(peer);
    const bool sends = id.src == context_.rank;
    return std::make_unique<PendingOnBoard>("nvlink", id, context_, *together_, [&] {
      return DeviceParts{(sends ? peer : own).allocate(context_.on.inbox_bytes),
                         (sends ? own : peer).allocate(context_.on.credit_bytes)};
    });
  }
  std::shared_ptr<Device> deviceOf(int rank) const {
    const std::lock_guard lock(together_->mutex);
    return together_->devices.at(rank);
  }

  const Context context_;
  Card card_;
  std::shared_ptr<Mailbox> mailbox_;   ///< between processes
  std::shared_ptr<Together> together_; ///< within a process
};

std::unique_ptr<Transport> make(const Context& context) {
  if (context.board) return std::make_unique<Nvlink>(context, std::nullopt);
  const auto scope = Scope::here();
  if (!scope || !context.on.device->shares()) return nullptr;
  return std::make_unique<Nvlink>(context, scope);
}

} // namespace
} // namespace nvlink

extern const Kind k_nvlink = {"nvlink", "devices that see each other's memory, or one device", true,
                              nvlink::make};

} // namespace rondo::transport
