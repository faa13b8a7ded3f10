// Authenticated connections: who may talk to this job, and how the two ends find out.
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

namespace rondo::net {

/// 32 bytes that all processes of a job share. Absent: only loopback and Unix addresses are used,
/// and only by processes of one user, as the kernel knows them.
struct Secret {
  bool present = false;
  std::array<std::byte, 32> bytes{};

  static Secret random();
};

/// An IPv4 or IPv6 address with port, or a Unix socket in the abstract namespace.
struct SocketAddress {
  enum class Family : std::uint8_t { inet, inet6, unix_abstract };
  Family family = Family::inet;
  std::array<std::byte, 16> ip{}; ///< inet: first four, network order
  std::uint16_t port = 0;
  std::uint32_t scope = 0; ///< IPv6 link-local interface index
  std::string name;        ///< unix_abstract, without the leading zero byte

  bool operator==(const SocketAddress&) const = default;

  bool loopback() const; ///< true for unix_abstract
  std::string text() const;
  std::vector<std::byte> encode() const; ///< versioned little-endian, at most 64 bytes
  /// Throws Error(transport) for anything that encode() does not make.
  static SocketAddress decode(std::span<const std::byte> bytes);
  /// "host:port", "[v6]:port". Throws Error(invalid_argument), and Error(timeout) when the system
  /// does not resolve the host's name within `limit`.
  static SocketAddress parse(const std::string& host_port, const std::string& family,
                             std::chrono::milliseconds limit = std::chrono::seconds(30));
};

/// What the dialing side says of itself. At most 128 bytes on the wire together with its framing.
struct Hello {
  enum class Purpose : std::uint8_t { control, data };
  Purpose purpose = Purpose::control;
  std::uint64_t job = 0;
  std::int32_t rank = 0, size = 0; ///< control: of the job
  std::uint64_t communicator = 0;  ///< data: transport::ChannelId's fields
  std::int32_t src = 0, dst = 0, index = 0;
  std::int32_t part = 0; ///< data: which socket of a striped channel
};

/// An accepted connection: both sides proved that they know the secret.
struct Accepted {
  base::UniqueFd fd; ///< non-blocking
  Hello hello;
  /// Known to both ends of this connection only: made from the secret, the hello and both nonces.
  std::array<std::byte, 32> session_key{};
  std::vector<base::UniqueFd> passed; ///< descriptors that came along (Unix sockets only)
};

/// Listens, and serves many handshakes at once on the process's event loop thread: fixed-size
/// bounded hello, mutual HMAC-SHA256 over role, hello and both nonces, constant-time compare, 3 s
/// each, a cap on half-open ones, which also never hold more than a quarter of the descriptors that
/// the process may have, and make way when it has none left. A bad peer is dropped and counted.
/// Unix peers, and those without a secret, must have this process's user id.
class Acceptor {
 public:
  struct Settings {
    SocketAddress address; ///< port 0: any; an empty unix name: a random one
    Secret secret;
    std::uint64_t job = 0; ///< hellos of another job are refused
    int half_open_limit = 128;
    std::chrono::milliseconds handshake_limit{3000};
    /// In place of secret and job, for several jobs: what a connection with this hello must know;
    /// nothing: nobody waits for it here. For data it is closed, and its dialing side tries again;
    /// for control it is refused: the listener is there before anybody is told of it. Called on the
    /// event loop thread.
    std::function<std::optional<Secret>(const Hello&)> secret_of{};
  };
  /// `accepted` runs on the event loop thread and must not block. After close() or destruction it
  /// is not running and never called again (it may itself call close(); do not hold a lock that it
  /// takes). Throws Error(invalid_argument) for a non-loopback address without a secret,
  /// Error(system) when the address cannot be bound.
  Acceptor(const Settings& settings, std::function<void(Accepted)> accepted);
  ~Acceptor();

  const SocketAddress& address() const;
  std::uint64_t rejected() const; ///< handshakes that failed so far
  /// Throws Error(system) when nobody could be accepted for half a second, because this process has
  /// no descriptor or memory left for it. Any thread.
  void throwIfStarved() const;
  /// So many peers are honest: at least that many, and 64 others, may be half-open. Any thread.
  void expect(int peers);
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// One outgoing connection with its handshake, made on the event loop thread. Retries a refused
/// connect until the deadline, which moves by the time in which the process was stopped or starved.
class Dial {
 public:
  struct Settings {
    SocketAddress address;
    Secret secret;
    Hello hello;
    base::Clock::time_point deadline;
    std::vector<int> pass; ///< descriptors to pass along (Unix sockets only); duplicated at once
  };
  /// Throws Error(invalid_argument) for a non-loopback address without a secret, and for
  /// descriptors that cannot be passed (more than 4, or over IP).
  explicit Dial(const Settings& settings);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  /// The connected, non-blocking socket, once; nullopt while in progress.
  /// Throws Error(transport | timeout).
  std::optional<base::UniqueFd> poll();
  /// As poll(), sleeping until then. Not on the event loop thread.
  base::UniqueFd wait();
  /// Equals Accepted::session_key at the other end. Only after poll() or wait() gave the socket.
  std::array<std::byte, 32> sessionKey() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

} // namespace rondo::net
