// A transport between threads, with a large address and a worker.
#include "worked_transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/codec.h"
#include "rondo/error.h"
#include "transports/support.h"

namespace rondo::test {
namespace {

using namespace transport;

constexpr std::size_t kAddressBytes = 4096;
/// Most messages of a channel between sender and receiver.
constexpr std::size_t kInFlight = 4;

struct Message {
  MessageHeader header;
  std::vector<std::byte> body;
};

/// State that both ends of a channel share.
struct Link {
  std::mutex mutex;
  std::deque<Message> in_flight;
  std::array<std::atomic<bool>, 2> claimed{};
};

/// The interface of an end for the worker.
class Served {
 public:
  virtual ~Served() = default;
  virtual bool move() = 0;
};

class OneWorker final : public Worker {
 public:
  void add(const std::shared_ptr<Served>& end) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(end);
  }
  bool progress() noexcept override {
    const std::lock_guard lock(mutex_);
    bool moved = false;
    std::erase_if(ends_, [&moved](const std::weak_ptr<Served>& entry) {
      const auto end = entry.lock();
      if (end) moved |= end->move();
      return !end;
    });
    return moved;
  }

 private:
  std::mutex mutex_; // any thread may open channels
  std::vector<std::weak_ptr<Served>> ends_;
};

class Outbox final : public Served {
 public:
  explicit Outbox(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  bool move() override {
    const std::lock_guard lock(link_->mutex);
    bool moved = false;
    for (; !posted.empty() && link_->in_flight.size() < kInFlight; moved = true) {
      const Posted& next = posted.front();
      Message message{next.header, {}};
      for (const ConstBytes& piece : next.body) {
        const auto* from = static_cast<const std::byte*>(piece.data);
        message.body.insert(message.body.end(), from, from + piece.size);
      }
      link_->in_flight.push_back(std::move(message));
      posted.pop_front();
    }
    return moved;
  }

  struct Posted {
    MessageHeader header;
    std::vector<ConstBytes> body;
  };
  std::deque<Posted> posted;

 private:
  const std::shared_ptr<Link> link_;
};

class Inbox final : public Served {
 public:
  explicit Inbox(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  bool move() override {
    const std::lock_guard lock(link_->mutex);
    if (!arrived.empty() || link_->in_flight.empty()) return false;
    arrived.swap(link_->in_flight);
    return true;
  }

  std::deque<Message> arrived;

 private:
  const std::shared_ptr<Link> link_;
};

class Sender final : public NetworkSender {
 public:
  Sender(std::shared_ptr<Outbox> box, std::size_t depth) : box_(std::move(box)), depth_(depth) {}
  std::size_t pending() const override { return box_->posted.size(); }
  bool start(const MessageHeader& header, std::span<const ConstBytes> body) override {
    if (pending() == depth_) return false;
    box_->posted.push_back({header, {body.begin(), body.end()}});
    box_->move();
    return true;
  }
  bool progress() override { return false; }
  bool reads(const void* data, std::size_t size) const override {
    const auto* from = static_cast<const std::byte*>(data);
    const auto overlaps = [&](const ConstBytes& piece) {
      const auto* at = static_cast<const std::byte*>(piece.data);
      return at < from + size && from < at + piece.size;
    };
    return std::any_of(box_->posted.begin(), box_->posted.end(), [&](const auto& message) {
      return std::any_of(message.body.begin(), message.body.end(), overlaps);
    });
  }

 private:
  const std::shared_ptr<Outbox> box_;
  const std::size_t depth_;
};

class Receiver final : public NetworkReceiver {
 public:
  explicit Receiver(std::shared_ptr<Inbox> box) : box_(std::move(box)) {}
  const MessageHeader* peek() override {
    return box_->arrived.empty() ? nullptr : &box_->arrived.front().header;
  }
  bool receive(std::span<const MutableBytes> body) override {
    const std::byte* from = box_->arrived.front().body.data();
    for (const MutableBytes& piece : body) {
      if (piece.size > 0) std::memcpy(piece.data, from, piece.size);
      from += piece.size;
    }
    box_->arrived.pop_front();
    return true;
  }

 private:
  const std::shared_ptr<Inbox> box_;
};

class Pending final : public PendingWithDeadline {
 public:
  Pending(const ChannelId& id, const Context& context, ChannelSize size,
          std::shared_ptr<OneWorker> worker)
      : PendingWithDeadline("worked", id, context),
        sends_(id.src == context.rank),
        size_(size),
        worker_(std::move(worker)) {
    const std::string key = channel_ + " of " + std::to_string(context.communicator);
    link_ = context.board->findOrMake<Link>(key, [] { return std::make_shared<Link>(); });
    link_->claimed[sends_].store(true);
  }

 private:
  std::unique_ptr<Port> attempt() override {
    if (!link_->claimed[0] || !link_->claimed[1]) return nullptr;
    auto port = std::make_unique<Port>();
    port->slot_bytes = size_.slot_bytes;
    port->depth = size_.depth;
    if (sends_) {
      const auto box = std::make_shared<Outbox>(link_);
      worker_->add(box);
      port->path = std::make_unique<Sender>(box, static_cast<std::size_t>(size_.depth));
    } else {
      const auto box = std::make_shared<Inbox>(link_);
      worker_->add(box);
      port->path = std::make_unique<Receiver>(box);
    }
    return port;
  }

  const bool sends_;
  const ChannelSize size_;
  const std::shared_ptr<OneWorker> worker_;
  std::shared_ptr<Link> link_;
};

class Worked final : public Transport {
 public:
  explicit Worked(const Context& context)
      : context_(context), size_(channelSize(context.options, kNetworkChannelSize)) {}

  std::string_view name() const override { return "worked"; }
  std::size_t slotBytes() const override { return size_.slot_bytes; }
  bool mapped() const override { return false; }
  Worker* worker() override { return worker_.get(); }

  Address address() const override {
    base::Writer out;
    out.u64(context_.communicator);
    Address bytes = out.take();
    bytes.resize(kAddressBytes, std::byte{0x5a});
    return bytes;
  }
  bool reaches(const Address& peer) const override {
    base::Reader in(peer, "worked address");
    const bool same = in.u64() == context_.communicator;
    in.raw(kAddressBytes - sizeof(std::uint64_t));
    in.finish();
    return same;
  }
  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& peer) override {
    if (!reaches(peer))
      throw Error(ErrorCode::transport, describe("worked", id) + ": another communicator");
    return std::make_unique<Pending>(id, context_, size_, worker_);
  }

 private:
  const Context context_;
  const ChannelSize size_;
  const std::shared_ptr<OneWorker> worker_ = std::make_shared<OneWorker>();
};

std::unique_ptr<Transport> make(const Context& context) {
  return context.board ? std::make_unique<Worked>(context) : nullptr;
}

} // namespace

const Kind k_worked = {"worked", "threads, with a worker and a large address", false, make};

} // namespace rondo::test
