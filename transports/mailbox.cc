// Keeps incoming connections until their channel is opened.
#include "transports/mailbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rondo/error.h"

namespace rondo::transport {

namespace {

/// Least backlog of a listener, because several communicators may share it.
constexpr int kLeastPeers = 64;

constexpr std::chrono::milliseconds kDialEarlier{500};

/// Unix sockets lead to processes of the same machine, and have no TLS.
bool usesTls(const Context& context, const net::SocketAddress& address) {
  return context.options.tls && address.family != net::SocketAddress::Family::unix_abstract;
}

} // namespace

Mailbox::Mailbox(const Context& context, const net::SocketAddress& address, int parts)
    : box_(std::make_shared<Box>()) {
  box_->rank = context.rank;
  box_->size = context.size;
  box_->parts = parts;
  box_->tls = usesTls(context, address);
  net::SharedAcceptor::Settings settings;
  settings.address = address;
  settings.secret = context.secret;
  settings.key = {net::Hello::Purpose::data, context.job, context.communicator, context.rank};
  settings.peers = std::max(context.size, kLeastPeers);
  acceptor_ = std::make_unique<net::SharedAcceptor>(
      settings, [box = box_](net::Accepted accepted) { box->put(std::move(accepted)); });
}

const net::SocketAddress& Mailbox::address() const { return acceptor_->address(); }

void Mailbox::Box::put(net::Accepted accepted) {
  const net::Hello& hello = accepted.hello;
  if (hello.src < 0 || hello.src >= size || hello.src == rank || hello.index < 0 ||
      hello.index > ChannelId::kPointToPoint || hello.part < 0 || hello.part >= parts ||
      hello.tls != tls)
    return;
  const Key key{{hello.communicator, hello.src, hello.dst, hello.index}, hello.part};
  std::lock_guard lock(mutex);
  if (seen.insert(key).second) waiting.emplace(key, std::move(accepted));
}

std::optional<net::Accepted> Mailbox::take(const ChannelId& id, int part) {
  std::lock_guard lock(box_->mutex);
  const auto found = box_->waiting.extract({id, part});
  if (found.empty()) {
    acceptor_->throwIfStarved();
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
  // Earlier than the channel's deadline, whose error would not say what the dial has met.
  const std::chrono::milliseconds limit = context.options.init_timeout;
  settings.deadline = base::Deadline(limit - std::min(limit / 16, kDialEarlier)).at();
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
  hello.tls = usesTls(context, address);
  return settings;
}

} // namespace rondo::transport
