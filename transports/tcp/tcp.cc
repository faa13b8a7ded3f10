// tcp: one or several sockets for each channel. The sender's end dials; connections are
// authenticated.
//
// The sockets of a channel are its lines: tcp_sockets for each *rail*. A rail is a pair of network
// interfaces, one of each rank. A rank listens on all its rails. The kernel's routes decide which
// interface a connection uses, so rails must be separate networks.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>

#include "base/codec.h"
#include "base/log.h"
#include "base/read_file.h"
#include "net/interfaces.h"
#include "net/native_address.h"
#include "rondo/error.h"
#include "transports/mailbox.h"
#include "transports/support.h"
#include "transports/tcp/ends.h"

namespace rondo::transport {
namespace tcp {
namespace {

constexpr std::uint8_t kAddressVersion = 2;
constexpr int kMaxSockets = 16;
static_assert(kMaxSockets * net::kMostRails == kMostLines);
constexpr std::size_t kMostSocketAddressBytes = 64;

/// The address of a rank.
struct Location {
  int sockets = 1;                           ///< of a channel, on each rail
  std::vector<net::SocketAddress> listeners; ///< by rail

  Address encode() const {
    base::Writer out;
    out.u8(kAddressVersion);
    out.u8(static_cast<std::uint8_t>(sockets));
    out.u8(static_cast<std::uint8_t>(listeners.size()));
    for (const auto& listener : listeners) out.blob(listener.encode());
    return out.take();
  }

  static Location decode(const Address& address) {
    base::Reader in(address, "tcp address");
    if (const int version = in.u8(); version != kAddressVersion)
      in.fail("is of version " + std::to_string(version) + ", wanted " +
              std::to_string(kAddressVersion));
    Location out;
    out.sockets = in.u8();
    if (out.sockets < 1 || out.sockets > kMaxSockets)
      in.fail("asks for " + std::to_string(out.sockets) + " sockets");
    const std::size_t rails = in.u8();
    if (rails < 1 || rails > net::kMostRails)
      in.fail("has " + std::to_string(rails) + " listeners");
    for (std::size_t i = 0; i < rails; ++i) {
      const auto& listener =
          out.listeners.emplace_back(net::SocketAddress::decode(in.blob(kMostSocketAddressBytes)));
      if (listener.family == net::SocketAddress::Family::unix_abstract || listener.port == 0)
        in.fail("names no port: " + listener.text());
    }
    in.finish();
    return out;
  }
};

void setCongestion(int fd, const std::string& name) {
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0)
    return;
  const int error = errno;
  const std::string available =
      base::firstLine("/proc/sys/net/ipv4/tcp_available_congestion_control");
  throw Error(ErrorCode::invalid_argument,
              "RONDO_TCP_CONGESTION: the kernel refuses '" + name + "': " + errnoText(error) +
                  "; it has: " + (available.empty() ? "(unknown)" : available));
}

void set(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof value) != 0)
    throw Error(ErrorCode::system, std::string(name) + ": " + errnoText(errno));
}

/// Sets TCP_NODELAY, so that small messages do not wait for an acknowledgement, and keep-alive.
/// Data flow in one direction, so a receiving end would never notice a dead link. With keep-alive
/// its system probes the peer's after a heartbeat of silence, and gives up after two more without
/// an answer.
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

/// Limits the send buffer of a socket to `peer` if that is on the same machine, so that the data
/// stays in the caches.
void stayInCaches(int fd, const net::SocketAddress& peer) {
  const net::SocketAddress own = net::localAddress(fd);
  if (own.family == peer.family && own.ip == peer.ip)
    set(fd, SOL_SOCKET, SO_SNDBUF, kNearSendBytes, "SO_SNDBUF");
}

/// How long a peer's system may take to acknowledge data. A round trip takes up to 0.3 s between
/// continents and 0.6 s over a satellite, and Linux waits for at least 0.2 s before it sends a lost
/// packet again. So the result is at least a second.
std::chrono::milliseconds silenceLimit(const Options& options) {
  return std::clamp<std::chrono::milliseconds>(3 * options.heartbeat, std::chrono::seconds(1),
                                               std::chrono::hours(3));
}

/// The listeners of a rank, by rail. Its channels check here for lines that connect late.
using Rails = std::vector<std::unique_ptr<Mailbox>>;

/// Logs that other rails replace a rail: once for each process, for all channels and communicators.
void sayReplaced(int peer, std::size_t rail, net::SocketAddress listener, const std::string& why) {
  // Never destroyed: a static Communicator of the program ends after the statics of this file.
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string>;
  listener.port = 0;
  {
    const std::lock_guard lock(mutex);
    if (!said.insert(listener.text()).second) return;
  }
  base::log(LogLevel::warn, "tcp: data for rank ", peer, " on rail ", rail, " (", listener.text(),
            ") uses other rails now: ", why);
}

/// How a pair of ranks is connected. The lines of one rail are consecutive.
struct Wiring {
  std::vector<net::SocketAddress> rails; ///< the receiver's listeners, as many as both ranks have
  int sockets = 1;                       ///< on each rail

  std::size_t lines() const { return rails.size() * static_cast<std::size_t>(sockets); }
  std::size_t railOf(std::size_t line) const { return line / static_cast<std::size_t>(sockets); }
};

ChannelSize networkChannelSize(const Options& options, std::size_t lines) {
  ChannelSize size = channelSize(options, kNetworkChannelSize);
  if (lines > 1) size.depth *= kStripedDepthTimes;
  return size;
}

/// An end of a channel until its first line is connected. The other lines may connect later.
class Pending : public PendingWithDeadline {
 public:
  Pending(const ChannelId& id, const Context& context, std::size_t lines)
      : PendingWithDeadline("tcp", id, context),
        settings_{channel_, peer_, networkChannelSize(context.options, lines),
                  silenceLimit(context.options), context.options.checksum},
        sockets_(lines) {}

 protected:
  /// Returns a line's socket; nothing while it is not connected. May outlive this object.
  using Connect = std::function<std::optional<net::Socket>(std::size_t)>;

  const SocketSettings settings_;
  Connect connect_;

 private:
  virtual void finish(Port& port, std::vector<net::Socket> sockets) = 0;

  std::unique_ptr<Port> attempt() override {
    std::size_t connected = 0, failed = 0;
    for (std::size_t line = 0; line < sockets_.size(); ++line) {
      try {
        if (!sockets_[line])
          if (auto socket = connect_(line)) sockets_[line] = std::move(*socket);
      } catch (const Error&) {
        if (++failed == sockets_.size()) throw; // another line is enough
      }
      if (sockets_[line]) ++connected;
    }
    if (connected == 0) return nullptr;
    auto port = std::make_unique<Port>();
    port->slot_bytes = settings_.size.slot_bytes;
    port->depth = settings_.size.depth;
    finish(*port, std::move(sockets_));
    return port;
  }

  std::vector<net::Socket> sockets_;
};

class PendingSender final : public Pending {
 public:
  PendingSender(const ChannelId& id, const Context& context, const Wiring& wiring)
      : Pending(id, context, wiring.lines()), wiring_(wiring) {
    auto dials = std::make_shared<std::vector<std::unique_ptr<net::Dial>>>();
    for (std::size_t line = 0; line < wiring.lines(); ++line)
      dials->push_back(std::make_unique<net::Dial>(
          dialSettings(context, wiring.rails[wiring.railOf(line)], id, static_cast<int>(line))));
    connect_ = [dials, wiring, options = context.options](std::size_t line) {
      auto socket = (*dials)[line]->poll();
      if (!socket) return socket;
      prepare(socket->get(), options);
      stayInCaches(socket->get(), wiring.rails[wiring.railOf(line)]);
      return socket;
    };
  }

 private:
  void finish(Port& port, std::vector<net::Socket> sockets) override {
    if (sockets.size() == 1) {
      port.path = makeSender(std::move(sockets[0]), settings_);
      return;
    }
    const auto say = [peer = peer_, wiring = wiring_](std::size_t line, const std::string& why) {
      const std::size_t rail = wiring.railOf(line);
      sayReplaced(peer, rail, wiring.rails[rail], why);
    };
    port.path = makeStripedSender({std::move(sockets), connect_, say}, settings_);
  }

  const Wiring wiring_;
};

class PendingReceiver final : public Pending {
 public:
  PendingReceiver(const ChannelId& id, const Context& context, const Wiring& wiring,
                  const std::shared_ptr<Rails>& rails)
      : Pending(id, context, wiring.lines()) {
    connect_ = [id, rails, wiring, options = context.options,
                silence = settings_.silence](std::size_t line) -> std::optional<net::Socket> {
      auto arrived = (*rails)[wiring.railOf(line)]->take(id, static_cast<int>(line));
      if (!arrived) return std::nullopt;
      prepare(arrived->socket.get(), options);
      // For the last byte of the handshake, because keep-alive sends no probes while that is not
      // acknowledged. A sender must not have this timeout: it would also expire if the peer is only
      // slow to read.
      set(arrived->socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()),
          "TCP_USER_TIMEOUT");
      return std::move(arrived->socket);
    };
  }

 private:
  void finish(Port& port, std::vector<net::Socket> sockets) override {
    if (sockets.size() == 1) port.path = makeReceiver(std::move(sockets[0]), settings_);
    else port.path = makeStripedReceiver({std::move(sockets), connect_, {}}, settings_);
  }
};

class Tcp final : public Transport {
 public:
  explicit Tcp(const Context& context)
      : context_(context),
        slot_bytes_(channelSize(context.options, kNetworkChannelSize).slot_bytes),
        sockets_(checkedSockets(context.options)) {
    if (!context.options.tcp_congestion.empty()) {
      // Report an unusable name here, before a rank connects.
      const base::UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!probe) throw Error(ErrorCode::system, "socket: " + errnoText(errno));
      setCongestion(probe.get(), context.options.tcp_congestion);
    }
    const auto addresses = net::railAddresses(context.options.socket_interface,
                                              context.bind_address, net::listInterfaces());
    const int lines = sockets_ * static_cast<int>(addresses.size());
    for (const net::SocketAddress& address : addresses)
      rails_->push_back(std::make_unique<Mailbox>(context, address, lines));
  }

  std::string_view name() const override { return "tcp"; }
  std::size_t slotBytes() const override { return slot_bytes_; }
  bool mapped() const override { return false; }
  Address address() const override {
    Location own{sockets_, {}};
    for (const auto& rail : *rails_) own.listeners.push_back(rail->address());
    return own.encode();
  }
  bool reaches(const Address& peer) const override {
    // Only checks the format: whether a peer can be reached shows when it is dialed.
    Location::decode(peer);
    return true;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    const Location peer = Location::decode(address);
    // If the ranks' settings differ, both ends still compute the same numbers.
    Wiring wiring{peer.listeners, std::min(sockets_, peer.sockets)};
    wiring.rails.resize(std::min(peer.listeners.size(), rails_->size()));
    if (id.src == context_.rank) return std::make_unique<PendingSender>(id, context_, wiring);
    return std::make_unique<PendingReceiver>(id, context_, wiring, rails_);
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
  const std::shared_ptr<Rails> rails_ = std::make_shared<Rails>();
};

std::unique_ptr<Transport> make(const Context& context) {
  if (context.bind_address.family == net::SocketAddress::Family::unix_abstract) return nullptr;
  return std::make_unique<Tcp>(context);
}

} // namespace
} // namespace tcp

extern const Kind k_tcp = {"tcp", "TCP over IPv4 or IPv6, by one or several interfaces and sockets",
                           true, tcp::make};

} // namespace rondo::transport
