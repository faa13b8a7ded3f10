// The two ends of a channel over connected stream sockets.
//
// Over one socket a message is, on the wire, a header of 16 bytes (signature, body bytes;
// little-endian) and its body, nothing between. Over several (the channel's *lines*) it is cut into
// parts of kPartBytes, each behind a header of its own that says which part of which message it is:
// number of the message, signature, body bytes, where the part begins. Any line may carry any part,
// and several may carry the same one, so a line may be slow, come late, or end at any time.
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

#include "base/unique_fd.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport::tcp {

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kPartHeaderBytes = 32;

/// Bytes [begin, end) of a body.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// What an end knows of its channel.
struct SocketSettings {
  std::string channel; ///< for errors: "tcp channel 0 -> 1 (index 0)"
  int peer = -1;       ///< rank at the other end
  ChannelSize size;
  /// Data that the peer's system acknowledges nothing of for so long will not arrive any more.
  std::chrono::milliseconds silence{3000};
};

/// The socket is connected and non-blocking; it need not be TCP. The header and the body of a small
/// message leave in one system call.
std::unique_ptr<CarrierSender> makeSender(base::UniqueFd socket, const SocketSettings& settings);
/// A small message arrives by one system call; large bodies go straight into user memory.
std::unique_ptr<CarrierReceiver> makeReceiver(base::UniqueFd socket,
                                              const SocketSettings& settings);

/// The lines of a channel, in the same order at both ends, at least one connected.
struct Lines {
  std::vector<base::UniqueFd> sockets; ///< empty where a line is not connected yet
  /// Such a line's socket when it is; nothing while it is not. Throws Error when it will not be.
  std::function<std::optional<base::UniqueFd>(std::size_t)> connect;
  /// Told about a line that others have to stand in for, when they have done so: at most once that
  /// it is late, and once that it is lost.
  std::function<void(std::size_t line, const std::string& why)> replaced;
};

/// Parts go by the line by which they arrive first (split.h). A message is pending until the peer's
/// system has acknowledged all its parts; those of a line that is late or ends are sent again by
/// the others. Fails when no line is left, as a single socket would.
std::unique_ptr<CarrierSender> makeStripedSender(Lines lines, const SocketSettings& settings);
std::unique_ptr<CarrierReceiver> makeStripedReceiver(Lines lines, const SocketSettings& settings);

} // namespace rondo::transport::tcp
