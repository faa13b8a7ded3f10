// inproc: connects ranks that are threads of one process. This is the reference implementation of a
// mapped transport: the rank that opens a channel first puts its slots on the communicator's board,
// and the other rank finds them there.
#include <array>
#include <atomic>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/codec.h"
#include "rondo/error.h"
#include "transports/registry.h"
#include "transports/same_process.h"
#include "transports/slot_ring.h"
#include "transports/support.h"

namespace rondo::transport {
namespace {

/// The slots of one channel. They exist as long as one of its ends.
class Slots {
 public:
  explicit Slots(ChannelSize size)
      : size_(size), memory_(SlotRing::bytesNeeded(size.depth, size.slot_bytes)) {
    // Clears only the lines: with many ranks and channels, most slots are never used.
    std::memset(memory_.data(), 0, SlotRing::bytesNeeded(size.depth, 0));
  }

  /// Each end can be claimed once. Both ends must be claimed before one is used: otherwise an end
  /// could be used and closed, with its messages, before the other one is opened.
  bool claim(bool sender) { return !claimed_[sender].exchange(true, std::memory_order_relaxed); }
  bool bothClaimed() const {
    return claimed_[0].load(std::memory_order_relaxed) &&
           claimed_[1].load(std::memory_order_relaxed);
  }

  static std::unique_ptr<Port> port(const std::shared_ptr<Slots>& slots) {
    auto port = std::make_unique<Port>();
    port->slot_bytes = slots->size_.slot_bytes;
    port->depth = slots->size_.depth;
    port->path = MappedSlots{
        std::make_shared<SlotRing>(slots->memory_.data(), port->depth, port->slot_bytes, slots),
        std::make_shared<SameProcess>()};
    return port;
  }

 private:
  const ChannelSize size_;
  base::AlignedBuffer memory_;
  std::array<std::atomic<bool>, 2> claimed_{};
};

class Pending final : public PendingWithDeadline {
 public:
  Pending(const ChannelId& id, const Context& context, ChannelSize size)
      : PendingWithDeadline("inproc", id, context) {
    const std::string key = channel_ + " of " + std::to_string(context.communicator);
    slots_ = context.board->findOrMake<Slots>(key, [&] { return std::make_shared<Slots>(size); });
    if (!slots_->claim(id.src == context.rank))
      throw Error(ErrorCode::invalid_argument, channel_ + ": this end is already open");
  }

 private:
  std::unique_ptr<Port> attempt() override {
    return slots_->bothClaimed() ? Slots::port(slots_) : nullptr;
  }

  std::shared_ptr<Slots> slots_;
};

class Inproc final : public Transport {
 public:
  explicit Inproc(const Context& context)
      : context_(context), size_(channelSize(context.options, kMappedSize)) {}

  std::string_view name() const override { return "inproc"; }
  std::size_t slotBytes() const override { return size_.slot_bytes; }
  bool mapped() const override { return true; }

  Address address() const override {
    base::Writer out;
    out.u64(context_.communicator);
    return out.take();
  }

  bool reaches(const Address& peer) const override {
    base::Reader in(peer, "inproc address");
    const bool same = in.u64() == context_.communicator;
    in.finish();
    return same; // the board exists only if all ranks of the communicator are in this process
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& peer) override {
    if (!reaches(peer))
      throw Error(ErrorCode::transport,
                  describe("inproc", id) + ": the peer belongs to another communicator");
    return std::make_unique<Pending>(id, context_, size_);
  }

 private:
  const Context context_;
  const ChannelSize size_;
};

std::unique_ptr<Transport> make(const Context& context) {
  return context.board ? std::make_unique<Inproc>(context) : nullptr;
}

} // namespace

extern const Kind k_inproc = {"inproc", "ranks that are threads of one process", false, make};

} // namespace rondo::transport
