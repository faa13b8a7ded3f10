// The two ends of a channel over connected stream sockets.
//
// On the wire a message is a header of 16 bytes (signature, body bytes; little-endian) and its
// body, nothing between. With several sockets, headers and small bodies travel on the first; a
// large body is cut into one stripe per socket, by a rule that both ends know.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "transports/transport.h"
#include "transports/tuning.h"

namespace rondo::transport::tcp {

inline constexpr std::size_t kHeaderBytes = 16;

/// Bytes [begin, end) of a body.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// What socket `index` of `sockets` carries of a body.
inline Range stripe(std::size_t bytes, std::size_t sockets, std::size_t index) {
  if (sockets == 1 || bytes < kStripeBytes) return {index == 0 ? 0 : bytes, bytes};
  const std::size_t even = (bytes + sockets - 1) / sockets;
  const std::size_t share = (even + kStripeGrain - 1) / kStripeGrain * kStripeGrain;
  return {std::min(bytes, index * share), std::min(bytes, (index + 1) * share)};
}

/// What an end knows of its channel.
struct StreamSettings {
  std::string channel; ///< for errors: "tcp channel 0 -> 1 (index 0)"
  int peer = -1;       ///< rank at the other end
  ChannelSize size;
  /// Data that the peer's system acknowledges nothing of for so long will not arrive any more.
  std::chrono::milliseconds silence{3000};
};

/// `sockets` are connected and non-blocking, in the same order at both ends, at least one. They
/// need not be TCP. The header and the body of a small message leave in one system call.
std::unique_ptr<StreamSender> makeSender(std::vector<base::UniqueFd> sockets,
                                         const StreamSettings& settings);
/// A small message arrives by one system call; large bodies go straight into user memory.
std::unique_ptr<StreamReceiver> makeReceiver(std::vector<base::UniqueFd> sockets,
                                             const StreamSettings& settings);

} // namespace rondo::transport::tcp
