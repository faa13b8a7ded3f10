// Authenticated connections: who may connect to this job, and how both ends prove it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/socket.h"

namespace rondo::net {

/// 32 bytes that all processes of a job share. If absent, only loopback and Unix addresses are
/// used, and only between processes of one user, which the kernel identifies.
struct Secret {
  bool present = false;
  std::array<std::byte, 32> bytes{};

  static Secret random();
};

/// An IPv4 or IPv6 address with port, or a Unix socket in the abstract namespace.
struct SocketAddress {
  enum class Family : std::uint8_t { inet, inet6, unix_abstract };
  Family family = Family::inet;
  std::array<std::byte, 16> ip{}; ///< inet: the first four, in network order
  std::uint16_t port = 0;
  std::uint32_t scope = 0; ///< IPv6 link-local interface index
  std::string name;        ///< unix_abstract, without the leading zero byte

  bool operator==(const SocketAddress&) const = default;

  bool loopback() const; ///< true for unix_abstract
  std::string text() const;
  std::vector<std::byte> encode() const; ///< versioned little-endian, at most 64 bytes
  /// Throws Error(transport) for bytes that encode() does not produce.
  static SocketAddress decode(std::span<const std::byte> bytes);
  /// Parses "host:port" or "[v6]:port". Throws Error(invalid_argument); throws Error(timeout) when
  /// the system does not resolve the host name within `limit`.
  static SocketAddress parse(const std::string& host_port, const std::string& family,
                             std::chrono::milliseconds limit = std::chrono::seconds(30));
};

/// The dialing side's description of itself. With framing at most 128 bytes on the wire.
struct Hello {
  enum class Purpose : std::uint8_t { control, data };
  Purpose purpose = Purpose::control;
  std::uint64_t job = 0;
  std::int32_t rank = 0, size = 0; ///< control: rank and size in the job
  std::uint64_t communicator = 0;  ///< data: the fields of transport::ChannelId
  std::int32_t src = 0, dst = 0, index = 0;
  std::int32_t part = 0; ///< data: number of the socket in a striped channel
  bool tls = false;      ///< TLS follows the proofs; not over Unix sockets, not without a secret
};

/// An accepted connection, after both sides proved that they know the secret.
struct Accepted {
  Socket socket; ///< non-blocking
  Hello hello;
  /// Only the two ends of this connection know it: derived from the secret, the hello and both
  /// nonces.
  std::array<std::byte, 32> session_key{};
  std::vector<base::UniqueFd> passed; ///< descriptors that the peer passed (Unix sockets only)
};

/// Listens, and serves many handshakes at once on the process's event loop thread. A handshake has
/// a hello of fixed size, mutual HMAC-SHA256 over role, hello and both nonces, comparison in
/// constant time, and a limit of 3 s. The number of half-open connections is bounded; they use at
/// most a quarter of the process's descriptors and are dropped when none is left. Bad peers are
/// dropped and counted. Unix peers, and peers without a secret, must have this process's user id.
/// The dialing side chooses whether a connection uses TLS, and its proof covers the choice. The
/// callback `accepted` must compare Hello::tls with the setting of its own rank.
class Acceptor {
 public:
  struct Settings {
    SocketAddress address; ///< port 0: any port; empty unix name: a random one
    Secret secret;
    std::uint64_t job = 0; ///< hellos of other jobs are refused
    int half_open_limit = 128;
    std::chrono::milliseconds handshake_limit{3000};
    /// Replaces secret and job when several jobs share the listener: returns the secret for a
    /// connection with this hello. Returns nothing if no rank waits for it. A data connection is
    /// then closed, and the peer dials again; a control connection is refused, because a hub
    /// listens before its address is published. Called on the event loop thread.
    std::function<std::optional<Secret>(const Hello&)> secret_of{};
  };
  /// `accepted` runs on the event loop thread and must not block. After close() or destruction it
  /// is not running and is never called again. It may call close() itself; do not hold a lock that
  /// it takes. Throws Error(invalid_argument) for a non-loopback address without a secret,
  /// Error(system) when the address cannot be bound.
  Acceptor(const Settings& settings, std::function<void(Accepted)> accepted);
  ~Acceptor();

  const SocketAddress& address() const;
  std::uint64_t rejected() const; ///< number of failed handshakes
  /// Throws Error(system) when no connection could be accepted for half a second because this
  /// process has no free descriptor or memory. Any thread.
  void throwIfStarved() const;
  /// Sets the number of honest peers: at least that many, and 64 others, may be half-open. Any
  /// thread.
  void expect(int peers);
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// One outgoing connection with its handshake, made on the event loop thread. If the connection is
/// refused or the host cannot be reached, it tries again until the deadline. If the process was
/// stopped or got no processor time meanwhile, the deadline moves by that time.
class Dial {
 public:
  struct Settings {
    SocketAddress address;
    Secret secret;
    Hello hello;
    base::Clock::time_point deadline;
    std::vector<int> pass; ///< descriptors to pass (Unix sockets only), duplicated at once
    bool patient = true;   ///< false: a refused connect is Error(peer_dead), without a retry
  };
  /// Throws Error(invalid_argument) for a non-loopback address without a secret, for descriptors
  /// that cannot be passed (more than 4, or over IP), and for TLS over a Unix socket or
  /// without a secret; Error(unsupported) if this process cannot use TLS.
  explicit Dial(const Settings& settings);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  /// Returns the connected, non-blocking socket, once; nullopt while in progress. Throws
  /// Error(transport
  ///   timeout).
  std::optional<Socket> poll();
  /// As poll(), but blocks. Not on the event loop thread.
  Socket wait();
  /// Equals Accepted::session_key at the other end. Requires that poll() or wait() returned the
  /// socket.
  std::array<std::byte, 32> sessionKey() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

} // namespace rondo::net
