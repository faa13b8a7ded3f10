// shm: connects processes of one user on one machine by shared slots. The sender's end makes the
// slots and passes them over an abstract Unix socket. Nothing has a name in the file system that
// could be left behind or guessed.
#include <atomic>

#include "base/log.h"
#include "base/memory_file.h"
#include "rondo/error.h"
#include "transports/location.h"
#include "transports/mailbox.h"
#include "transports/shm/loans.h"
#include "transports/shm/process_memory.h"
#include "transports/slot_ring.h"
#include "transports/support.h"

namespace rondo::transport {
namespace shm {
namespace {

std::size_t bytesOf(ChannelSize size) { return SlotRing::bytesNeeded(size.depth, size.slot_bytes); }

/// Size of the part that has memory from the start. Slots get memory when they are written, because
/// programs may have hundreds of communicators that only ever move small messages.
std::size_t headOf(ChannelSize size) {
  return base::canAllocateMapped() ? SlotRing::bytesNeeded(size.depth, 0) : bytesOf(size);
}

std::unique_ptr<Port> portOn(std::shared_ptr<void> memory, ChannelSize size, Side side, int peer,
                             std::shared_ptr<PeerRegions> regions) {
  auto port = std::make_unique<Port>();
  port->slot_bytes = size.slot_bytes;
  port->depth = size.depth;
  void* const at = memory.get();
  auto loans =
      loansOn(memory, side, peer, std::move(regions), side == Side::sender && slotsAreFaster());
  const auto slots = headOf(size) < bytesOf(size) ? SlotRing::Slots::grow : SlotRing::Slots::whole;
  port->path = MappedSlots{
      std::make_shared<SlotRing>(at, size.depth, size.slot_bytes, std::move(memory), slots),
      std::move(loans)};
  return port;
}

class PendingSender final : public PendingWithDeadline {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Location& peer, ChannelSize size,
                std::shared_ptr<PeerRegions> regions)
      : PendingWithDeadline("shm", id, context), size_(size), regions_(std::move(regions)) {
    const base::UniqueFd segment = base::makeMemoryFile(bytesOf(size), headOf(size));
    memory_ = base::mapMemoryFileHead(segment.get(), bytesOf(size), headOf(size));
    introduce(memory_.get());
    auto settings = dialSettings(context, peer.listener, id, 0);
    settings.pass = {segment.get()};
    dial_ = std::make_unique<net::Dial>(settings);
  }

 private:
  std::unique_ptr<Port> attempt() override {
    // The connection is no longer needed: the control plane watches the peer.
    if (!dial_->poll()) return nullptr;
    return portOn(std::move(memory_), size_, Side::sender, peer_, regions_);
  }

  const ChannelSize size_;
  const std::shared_ptr<PeerRegions> regions_;
  std::shared_ptr<void> memory_;
  std::unique_ptr<net::Dial> dial_;
};

class PendingReceiver final : public PendingWithDeadline {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, std::shared_ptr<Mailbox> mailbox,
                  ChannelSize size, std::shared_ptr<PeerRegions> regions)
      : PendingWithDeadline("shm", id, context),
        id_(id),
        mailbox_(std::move(mailbox)),
        size_(size),
        regions_(std::move(regions)) {}

 private:
  std::unique_ptr<Port> attempt() override {
    const auto arrived = mailbox_->takeWithDescriptor(id_);
    if (!arrived) return nullptr;
    const int segment = arrived->passed.front().get();
    base::checkMemoryFile(segment, bytesOf(size_), headOf(size_));
    auto memory = base::mapMemoryFileHead(segment, bytesOf(size_), headOf(size_));
    answer(memory.get(), peer_);
    return portOn(std::move(memory), size_, Side::receiver, peer_, regions_);
  }

  const ChannelId id_;
  const std::shared_ptr<Mailbox> mailbox_;
  const ChannelSize size_;
  const std::shared_ptr<PeerRegions> regions_;
};

class Shm final : public Transport {
 public:
  Shm(const Context& context, const Scope& scope)
      : context_(context), scope_(scope), size_(channelSize(context.options, kMappedSize)) {
    net::SocketAddress any;
    any.family = net::SocketAddress::Family::unix_abstract;
    mailbox_ = std::make_shared<Mailbox>(context, any, 1);
  }

  std::string_view name() const override { return "shm"; }
  std::size_t slotBytes() const override { return size_.slot_bytes; }
  bool mapped() const override { return true; }
  Address address() const override { return Location{scope_, mailbox_->address()}.encode(); }
  bool reaches(const Address& peer) const override {
    return Location::decode(peer, "shm address").scope == scope_;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    const Location peer = Location::decode(address, "shm address");
    if (peer.scope != scope_)
      throw Error(ErrorCode::transport, describe("shm", id) + ": the peer is on another machine");
    if (id.src == context_.rank)
      return std::make_unique<PendingSender>(id, context_, peer, size_, regions_);
    return std::make_unique<PendingReceiver>(id, context_, mailbox_, size_, regions_);
  }

 private:
  const Context context_;
  const Scope scope_;
  const ChannelSize size_;
  std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<PeerRegions> regions_ = std::make_shared<PeerRegions>();
};

void tellOnce(const Context& context, const std::string& why) {
  // Logged once, because programs make many communicators. Threads of one process do not need shm.
  static std::atomic<bool> told{false};
  if (!context.board && !told.exchange(true)) base::log(LogLevel::warn, "shm is not used: ", why);
}

/// If a rank cannot use shm, it does not offer it. Then its peers also use the next transport for
/// it.
std::unique_ptr<Transport> make(const Context& context) {
  const auto scope = Scope::here();
  if (!scope) {
    tellOnce(context, "it needs /proc to identify this machine, but /proc is not mounted");
    return nullptr;
  }
  try {
    base::tryMemoryFile(bytesOf(channelSize(context.options, kMappedSize)));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::system) throw;
    tellOnce(context, error.what());
    return nullptr;
  }
  return std::make_unique<Shm>(context, *scope);
}

} // namespace
} // namespace shm

extern const Kind k_shm = {"shm", "shared memory, for processes of one user on one machine", true,
                           shm::make};

} // namespace rondo::transport
