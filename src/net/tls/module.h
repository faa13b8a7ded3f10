// The interface of the module librondo_tls.so, which is linked with OpenSSL's libssl. Programs that
// do not use TLS never load it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rondo::net::tls {

inline constexpr char kModuleFile[] = "librondo_tls.so";
inline constexpr char kModuleSymbol[] = "rondo_tls_1";

/// Full TLS records that one key may encrypt. AES-GCM is safe for 2^24.5 of them (RFC 8446, 5.5).
inline constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 24;

/// TLS 1.3 over a connected, non-blocking socket that somebody else owns. No function blocks or
/// throws. Destruction sends nothing. One thread at a time may use it.
class Tls {
 public:
  enum class Progress { done, wants_to_read, wants_to_write, failed };

  Tls() = default;
  virtual ~Tls() = default;
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// Continues the handshake. Call it again when the socket is ready for what the result says.
  virtual Progress handshake() = 0;

  /// As sendmsg(): returns how many bytes the kernel has taken, or -1 with errno. After EAGAIN or a
  /// short count, the next call must begin with all bytes that were not counted, because they may
  /// be encrypted already; other bytes may follow them. EPROTO: the handshake is not done, or
  /// libcrypto failed; see trouble(). If receive() has failed, send() fails with the same errno; if
  /// receive() has returned 0, with EPIPE.
  virtual ssize_t send(std::span<const iovec> list) = 0;
  /// As recvmsg(): returns how many bytes were received, 0 at the end of the connection, or -1 with
  /// errno. After a short count nothing more has arrived, or the next call returns 0 or the error.
  /// A call that fails may also write to the buffers, but never bytes that are not authenticated.
  /// EBADMSG: the next record is not what the peer encrypted, or is an alert; see trouble().
  /// EPROTO: as send().
  virtual ssize_t receive(std::span<const iovec> list) = 0;
  /// Whether receive() may return bytes, the end or an error although the socket has no bytes.
  virtual bool buffered() const = 0;

  /// Whether receiving met the socket's end or an error of the socket.
  virtual bool ended() const = 0;
  /// Why handshake() failed, or why send() or receive() failed with EPROTO or EBADMSG.
  virtual std::string trouble() const = 0;
};

struct Settings {
  int fd = -1;
  bool dials = false;              ///< the side that made the connection is TLS's client
  std::array<std::byte, 32> key{}; ///< pre-shared: both sides have it
  std::uint64_t records_per_key = kRecordsPerKey; ///< that this side sends
};

/// Returns null, and the reason in `why`, if libssl cannot make the state of a connection.
using OpenFunction = Tls* (*)(const Settings&, std::string& why);

} // namespace rondo::net::tls
