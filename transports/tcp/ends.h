// The two ends of a channel over connected stream sockets.
//
// Over one socket, a message is a header of 16 bytes (signature, body bytes, checksum of the body;
// little-endian) followed by its body. Over several sockets (the channel's *lines*), a message is
// divided into parts of kPartBytes. Each part has a header of its own: number of the message,
// signature, body bytes, checksum of the whole body, start of the part. Any line may carry any
// part, and several lines may carry the same part. So a line may be slow, connect late, or end at
// any time. With Options::checksum each header is followed by its own CRC32C, in 8 bytes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/socket.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport::tcp {

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kPartHeaderBytes = 32;
inline constexpr std::size_t kSealBytes = 8; ///< the CRC32C of a header

/// Bytes [begin, end) of a body.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// Properties of the channel that both ends need.
struct SocketSettings {
  std::string channel; ///< for errors: "tcp channel 0 -> 1 (index 0)"
  int peer = -1;       ///< rank at the other end
  ChannelSize size;
  /// The connection counts as dead if the peer's system acknowledges no data for this long.
  std::chrono::milliseconds silence{3000};
  bool sealed = false; ///< headers are followed by their CRC32C

  /// A header with its CRC32C, if it has one.
  std::size_t headerBytes(std::size_t header) const { return header + (sealed ? kSealBytes : 0); }
};

/// Makes the sending end. The socket must be connected and non-blocking; it need not be TCP. Header
/// and body of a small message are sent by one system call.
std::unique_ptr<NetworkSender> makeSender(net::Socket socket, const SocketSettings& settings);
/// Makes the receiving end. A small message is received by one system call; large bodies are
/// received directly into user memory.
std::unique_ptr<NetworkReceiver> makeReceiver(net::Socket socket, const SocketSettings& settings);

inline constexpr std::size_t kMostLines = 128; ///< 16 sockets on each of 8 rails

/// The lines of a channel, in the same order at both ends: at most kMostLines, of which at least
/// one is connected.
struct Lines {
  std::vector<net::Socket> sockets; ///< empty if a line is not connected yet
  /// Returns the socket of such a line when it is connected; nothing while it is not. Throws Error
  /// if it cannot be connected.
  std::function<std::optional<net::Socket>(std::size_t)> connect;
  /// Called when other lines have delivered what a line should have delivered: at most once because
  /// the line is late, and once because it is lost.
  std::function<void(std::size_t line, const std::string& why)> replaced;
};

/// Ends over several lines. Each part goes over the line on which it should arrive first (split.h).
/// A message is pending until the peer's system has acknowledged all its parts. Parts of a line
/// that is late or ends are sent again over the others. When no line is left, the end fails as with
/// a single socket.
std::unique_ptr<NetworkSender> makeStripedSender(Lines lines, const SocketSettings& settings);
std::unique_ptr<NetworkReceiver> makeStripedReceiver(Lines lines, const SocketSettings& settings);

} // namespace rondo::transport::tcp
