// pcie: connects devices of one machine that cannot access each other's memory. Inbox and credit
// are in host memory, which both devices access over PCIe. Ranks of one process find the memory on
// the communicator's board; between processes the sender makes a sealed memory file and passes it.
#include <sys/mman.h>

#include "base/memory_file.h"
#include "rondo/error.h"
#include "transports/device_port.h"

namespace rondo::transport {
namespace pcie {
namespace {

using device::Memory;

constexpr const char* kWhat = "pcie address";
constexpr std::size_t kPage = 4096;

/// The credit follows the inbox, whose size is a multiple of a line.
std::size_t bytesOf(const Context& context) {
  const std::size_t bytes = context.on.inbox_bytes + context.on.credit_bytes;
  return (bytes + kPage - 1) / kPage * kPage;
}

DeviceParts partsOf(const Memory& memory, const Context& context) {
  return {memory, {memory, memory.get() + context.on.inbox_bytes}};
}

Memory mapFile(int file, const Context& context) {
  return context.on.device->mapHost(
      base::mapMemoryFile(file, bytesOf(context), PROT_READ | PROT_WRITE), bytesOf(context));
}

class PendingSender final : public PendingPassing {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Location& receiver)
      : PendingPassing("pcie", id, context) {
    const base::UniqueFd file = base::makeMemoryFile(bytesOf(context));
    memory_ = mapFile(file.get(), context);
    dial(id, receiver, file.get());
  }

 private:
  std::unique_ptr<Port> connected(int /*socket*/) override {
    return devicePort(partsOf(memory_, context_), context_);
  }

  Memory memory_;
};

class PendingReceiver final : public PendingPassed {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, std::shared_ptr<Mailbox> mailbox)
      : PendingPassed("pcie", id, context, std::move(mailbox)) {}

 private:
  std::unique_ptr<Port> arrived(int file, int /*socket*/) override {
    base::checkMemoryFile(file, bytesOf(context_));
    return devicePort(partsOf(mapFile(file, context_), context_), context_);
  }
};

class Pcie final : public Transport {
 public:
  Pcie(const Context& context, const std::optional<Scope>& scope)
      : context_(context), scope_(scope) {
    if (scope) mailbox_ = localMailbox(context);
    else together_ = Together::of("pcie", context);
  }

  std::string_view name() const override { return "pcie"; }
  std::size_t slotBytes() const override { return context_.on.size.slot_bytes; }
  bool mapped() const override { return true; }

  /// Empty within one process.
  Address address() const override {
    return scope_ ? Location{*scope_, mailbox_->address()}.encode() : Address{};
  }
  bool reaches(const Address& peer) const override {
    if (peer.empty() || !scope_) return peer.empty() && !scope_;
    return Location::decode(peer, kWhat).scope == *scope_;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    if (!reaches(address))
      throw Error(ErrorCode::transport, describe("pcie", id) + ": the peer is on another machine");
    if (!scope_)
      return std::make_unique<PendingOnBoard>("pcie", id, context_, *together_, [this] {
        return partsOf(context_.on.device->allocateHost(bytesOf(context_)), context_);
      });
    if (id.src == context_.rank)
      return std::make_unique<PendingSender>(id, context_, Location::decode(address, kWhat));
    return std::make_unique<PendingReceiver>(id, context_, mailbox_);
  }

 private:
  const Context context_;
  const std::optional<Scope> scope_;
  std::shared_ptr<Mailbox> mailbox_;   ///< between processes
  std::shared_ptr<Together> together_; ///< within a process
};

std::unique_ptr<Transport> make(const Context& context) {
  if (context.board) return std::make_unique<Pcie>(context, std::nullopt);
  const auto scope = Scope::here();
  return scope ? std::make_unique<Pcie>(context, scope) : nullptr;
}

} // namespace
} // namespace pcie

extern const Kind k_pcie = {"pcie", "devices of one machine, through host memory", true,
                            pcie::make};

} // namespace rondo::transport
