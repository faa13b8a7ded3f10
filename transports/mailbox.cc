// Connections that wait for their channel.
#include "transports/mailbox.h"

#include <tuple>
#include <vector>

#include "base/fork.h"
#include "rondo/error.h"

namespace rondo::transport {

/// A process's listener at one address.
class Listener {
 public:
  /// The one at this address, or another where the same rank of the same communicator has a box
  /// there already: two transports may count their channels alike.
  static std::shared_ptr<Listener> with(const std::shared_ptr<Mailbox::Box>& box,
                                        const net::SocketAddress& address);

  const net::SocketAddress& address() const { return acceptor_->address(); }
  void throwIfStarved() const { acceptor_->throwIfStarved(); }
  void remove(const Mailbox::Box& box);

 private:
  /// Job, communicator, rank.
  using Whose = std::tuple<std::uint64_t, std::uint64_t, int>;
  static Whose whose(const Mailbox::Box& box) { return {box.job, box.communicator, box.rank}; }
  static Whose whose(const net::Hello& hello) { return {hello.job, hello.communicator, hello.dst}; }
  /// What the loop thread sees: outlives the acceptor's last call.
  struct Boxes {
    std::shared_ptr<Mailbox::Box> find(const net::Hello& hello);

    std::mutex mutex;
    std::map<Whose, std::shared_ptr<Mailbox::Box>> list;
  };

  explicit Listener(const net::SocketAddress& address);
  bool add(const std::shared_ptr<Mailbox::Box>& box);

  const base::Maker maker_;
  const std::shared_ptr<Boxes> boxes_ = std::make_shared<Boxes>();
  std::unique_ptr<net::Acceptor> acceptor_;
};

std::shared_ptr<Mailbox::Box> Listener::Boxes::find(const net::Hello& hello) {
  if (hello.purpose != net::Hello::Purpose::data) return nullptr;
  std::lock_guard lock(mutex);
  const auto found = list.find(whose(hello));
  return found == list.end() ? nullptr : found->second;
}

Listener::Listener(const net::SocketAddress& address) {
  net::Acceptor::Settings settings;
  settings.address = address;
  settings.secret_of = [boxes = boxes_](const net::Hello& hello) -> std::optional<net::Secret> {
    const auto box = boxes->find(hello);
    if (!box) return std::nullopt;
    return box->secret;
  };
  acceptor_ = std::make_unique<net::Acceptor>(settings, [boxes = boxes_](net::Accepted accepted) {
    if (const auto box = boxes->find(accepted.hello)) box->put(std::move(accepted));
  });
}

std::shared_ptr<Listener> Listener::with(const std::shared_ptr<Mailbox::Box>& box,
                                         const net::SocketAddress& address) {
  // A process has one network, whoever asks; the table holds no listener alive.
  static std::mutex mutex;
  static std::vector<std::pair<std::vector<std::byte>, std::weak_ptr<Listener>>> listeners;
  const auto where = address.encode();
  std::lock_guard lock(mutex);
  std::erase_if(listeners, [](const auto& one) { return one.second.expired(); });
  for (const auto& [at, listener] : listeners)
    if (const auto found = listener.lock();
        found && at == where && !found->maker_.elsewhere() && found->add(box))
      return found;
  std::shared_ptr<Listener> made(new Listener(address));
  made->add(box);
  listeners.emplace_back(where, made);
  return made;
}

bool Listener::add(const std::shared_ptr<Mailbox::Box>& box) {
  acceptor_->expect(box->size);
  std::lock_guard lock(boxes_->mutex);
  return boxes_->list.emplace(whose(*box), box).second;
}

void Listener::remove(const Mailbox::Box& box) {
  if (maker_.elsewhere()) return;
  std::lock_guard lock(boxes_->mutex);
  boxes_->list.erase(whose(box));
}

Mailbox::Mailbox(const Context& context, const net::SocketAddress& address, int parts)
    : box_(std::make_shared<Box>()) {
  box_->job = context.job;
  box_->communicator = context.communicator;
  box_->secret = context.secret;
  box_->rank = context.rank;
  box_->size = context.size;
  box_->parts = parts;
  listener_ = Listener::with(box_, address);
}

Mailbox::~Mailbox() { listener_->remove(*box_); }

const net::SocketAddress& Mailbox::address() const { return listener_->address(); }

void Mailbox::Box::put(net::Accepted accepted) {
  const net::Hello& hello = accepted.hello;
  if (hello.src < 0 || hello.src >= size || hello.src == rank || hello.index < 0 ||
      hello.index > ChannelId::kPointToPoint || hello.part < 0 || hello.part >= parts)
    return;
  const Key key{{hello.communicator, hello.src, hello.dst, hello.index}, hello.part};
  std::lock_guard lock(mutex);
  if (seen.insert(key).second) waiting.emplace(key, std::move(accepted));
}

std::optional<net::Accepted> Mailbox::take(const ChannelId& id, int part) {
  std::lock_guard lock(box_->mutex);
  const auto found = box_->waiting.extract({id, part});
  if (found.empty()) {
    listener_->throwIfStarved();
    return std::nullopt;
  }
  return std::move(found.mapped());
}

std::optional<net::Accepted> Mailbox::takeWithDescriptor(const ChannelId& id) {
  auto arrived = take(id, 0);
  if (arrived && arrived->passed.size() != 1)
    throw Error(ErrorCode::transport, "the peer passed " + std::to_string(arrived->passed.size()) +
                                          " descriptors instead of one");
  return arrived;
}

net::Dial::Settings dialSettings(const Context& context, const net::SocketAddress& address,
                                 const ChannelId& id, int part) {
  net::Dial::Settings settings;
  settings.address = address;
  settings.secret = context.secret;
  settings.deadline = base::Deadline(context.options.init_timeout).at();
  net::Hello& hello = settings.hello;
  hello.purpose = net::Hello::Purpose::data;
  hello.job = context.job;
  hello.rank = context.rank;
  hello.size = context.size;
  hello.communicator = id.communicator;
  hello.src = id.src;
  hello.dst = id.dst;
  hello.index = id.index;
  hello.part = part;
  return settings;
}

} // namespace rondo::transport
