// tcp: one or several sockets per channel, dialed by the sender's end, authenticated at connect.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>

#include "base/codec.h"
#include "rondo/error.h"
#include "transports/mailbox.h"
#include "transports/support.h"
#include "transports/tcp/stream.h"

namespace rondo::transport {
namespace tcp {
namespace {

constexpr std::uint8_t kAddressVersion = 1;
constexpr int kMaxSockets = 16;

/// What a rank tells the others.
struct Location {
  int sockets = 1;
  net::SocketAddress listener;

  Address encode() const {
    base::Writer out;
    out.u8(kAddressVersion);
    out.u8(static_cast<std::uint8_t>(sockets));
    out.raw(listener.encode());
    return out.take();
  }

  static Location decode(const Address& address) {
    base::Reader in(address, "tcp address");
    if (in.u8() != kAddressVersion) in.fail("has an unknown version");
    Location out;
    out.sockets = in.u8();
    if (out.sockets < 1 || out.sockets > kMaxSockets)
      in.fail("asks for " + std::to_string(out.sockets) + " sockets");
    out.listener = net::SocketAddress::decode(in.raw(in.left()));
    if (out.listener.family == net::SocketAddress::Family::unix_abstract || out.listener.port == 0)
      in.fail("names no port: " + out.listener.text());
    return out;
  }
};

void setCongestion(int fd, const std::string& name) {
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
    return;
  const int error = errno;
  std::string available;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_available_congestion_control"), available);
  throw Error(ErrorCode::invalid_argument,
              "the kernel refuses congestion control '" + name + "': " + errnoText(error) +
                  "; it has: " + (available.empty() ? "(unknown)" : available));
}

void set(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) != 0)
    throw Error(ErrorCode::system, std::string(name) + ": " + errnoText(errno));
}

/// Small messages must not wait for an acknowledgement. Data flow one way only, so the receiving
/// end is the one that never hears of a dead link by itself: its system asks the other's after a
/// heartbeat of silence, and gives up when that does not answer for two more.
void prepare(int fd, const Options& options) {
  using std::chrono::seconds;
  const int beat = static_cast<int>(
      std::clamp(std::chrono::ceil<seconds>(options.heartbeat), seconds(1), seconds(3600)).count());
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, beat, "TCP_KEEPIDLE");
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, beat, "TCP_KEEPINTVL");
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2, "TCP_KEEPCNT");
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
  if (!options.tcp_congestion.empty()) setCongestion(fd, options.tcp_congestion);
}

std::chrono::milliseconds silenceLimit(const Options& options) {
  return 3 * std::min<std::chrono::milliseconds>(options.heartbeat, std::chrono::hours(1));
}

/// Either end while its sockets come together.
class Pending : public PendingWithDeadline {
 public:
  Pending(const ChannelId& id, const Context& context, int sockets)
      : PendingWithDeadline("tcp", id, context),
        settings_{channel_, peer_, channelSize(context.options, kStreamSize),
                  silenceLimit(context.options)},
        options_(context.options),
        sockets_(static_cast<std::size_t>(sockets)) {}

 protected:
  /// Socket number `part`, or nullopt while it is not connected.
  virtual std::optional<base::UniqueFd> connected(std::size_t part) = 0;
  virtual void finish(Port& port, std::vector<base::UniqueFd> sockets) = 0;

  const StreamSettings settings_;

 private:
  std::unique_ptr<Port> attempt() override {
    for (std::size_t part = 0; part < sockets_.size(); ++part) {
      if (sockets_[part]) continue;
      auto socket = connected(part);
      if (!socket) continue;
      prepare(socket->get(), options_);
      sockets_[part] = std::move(*socket);
      ++ready_;
    }
    if (ready_ < sockets_.size()) return nullptr;
    auto port = std::make_unique<Port>();
    port->slot_bytes = settings_.size.slot_bytes;
    port->depth = settings_.size.depth;
    finish(*port, std::move(sockets_));
    return port;
  }

  const Options options_;
  std::vector<base::UniqueFd> sockets_;
  std::size_t ready_ = 0;
};

class PendingSender final : public Pending {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Location& peer, int sockets)
      : Pending(id, context, sockets) {
    for (int part = 0; part < sockets; ++part)
      dials_.push_back(std::make_unique<net::Dial>(dialSettings(context, peer.listener, id, part)));
  }

 private:
  std::optional<base::UniqueFd> connected(std::size_t part) override {
    return dials_[part]->poll();
  }
  void finish(Port& port, std::vector<base::UniqueFd> sockets) override {
    port.path = makeSender(std::move(sockets), settings_);
  }

  std::vector<std::unique_ptr<net::Dial>> dials_;
};

class PendingReceiver final : public Pending {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, int sockets,
                  std::shared_ptr<Mailbox> mailbox)
      : Pending(id, context, sockets), id_(id), mailbox_(std::move(mailbox)) {}

 private:
  std::optional<base::UniqueFd> connected(std::size_t part) override {
    auto arrived = mailbox_->take(id_, static_cast<int>(part));
    if (!arrived) return std::nullopt;
    // For the handshake's last byte: nobody asks while that is unanswered. A sender must not have
    // this: it would also end where the peer is only slow to read.
    set(arrived->fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT,
        static_cast<int>(settings_.silence.count()), "TCP_USER_TIMEOUT");
    return std::move(arrived->fd);
  }
  void finish(Port& port, std::vector<base::UniqueFd> sockets) override {
    port.path = makeReceiver(std::move(sockets), settings_);
  }

  const ChannelId id_;
  const std::shared_ptr<Mailbox> mailbox_;
};

class Tcp final : public Transport {
 public:
  explicit Tcp(const Context& context)
      : context_(context),
        slot_bytes_(channelSize(context.options, kStreamSize).slot_bytes),
        sockets_(checkedSockets(context.options)) {
    if (!context.options.tcp_congestion.empty()) {
      // Refused here, before anybody has connected.
      const base::UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!probe) throw Error(ErrorCode::system, "socket: " + errnoText(errno));
      setCongestion(probe.get(), context.options.tcp_congestion);
    }
    mailbox_ = std::make_shared<Mailbox>(context, context.bind_address, sockets_);
  }

  std::string_view name() const override { return "tcp"; }
  std::size_t slotBytes() const override { return slot_bytes_; }
  bool mapped() const override { return false; }
  Address address() const override { return Location{sockets_, mailbox_->address()}.encode(); }
  bool reaches(const Address& peer) const override {
    Location::decode(peer); // who can be reached is only known by trying
    return true;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    const Location peer = Location::decode(address);
    // Should the ranks' options differ after all, both ends still come to the same number.
    const int sockets = std::min(sockets_, peer.sockets);
    if (id.src == context_.rank)
      return std::make_unique<PendingSender>(id, context_, peer, sockets);
    return std::make_unique<PendingReceiver>(id, context_, sockets, mailbox_);
  }

 private:
  static int checkedSockets(const Options& options) {
    if (options.tcp_sockets < 1 || options.tcp_sockets > kMaxSockets)
      throw Error(ErrorCode::invalid_argument,
                  "tcp_sockets " + std::to_string(options.tcp_sockets) + " is not in 1 to " +
                      std::to_string(kMaxSockets));
    return options.tcp_sockets;
  }

  const Context context_;
  const std::size_t slot_bytes_;
  const int sockets_;
  std::shared_ptr<Mailbox> mailbox_;
};

std::unique_ptr<Transport> make(const Context& context) {
  if (context.bind_address.family == net::SocketAddress::Family::unix_abstract) return nullptr;
  return std::make_unique<Tcp>(context);
}

} // namespace
} // namespace tcp

extern const Kind k_tcp = {"tcp", "TCP over IPv4 or IPv6, one or several sockets per channel", true,
                           tcp::make};

} // namespace rondo::transport
